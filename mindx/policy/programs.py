"""The table of well-known programs: data, one program (or several alike) a line.

    names: base [@marks] options

`base` (read, write, danger) is the risk without any option. An option without a letter adds nothing; `w:-o` writes,
`d:-x` is dangerous, and the value of `c:--filter=` is itself a command, which is judged like any other. `=` after the
name: it takes a value; `?`: only an attached one; `-#`: any digit. An option that is not listed is dangerous, unless
`@any` says that this program has none that does harm.

Marks: `@subcommands` (options up to the first word; then the line `program word`), `@first-operand-ends` (no options
after the first operand), `@old-style` (`tar xf`), `@plus` (`+x`), `@writes-from-2` (the
second operand is written), `@sed`, `@awk` (the script is looked at), `@remote-file`, `@shell` (`-c` takes a line).

Sources: the manuals of coreutils 9, findutils 4.9, grep 3.8, sed 4.9, tar 1.34, git 2.39, and the programs' own --help.
"""

PROGRAMS = r"""
# Reading: no option of these writes or starts anything.
cat,ls,head,tail,wc,stat,df,pwd,realpath,readlink,dirname,basename: read @any
cut,paste,join,tr,nl,od,fold,fmt,tac,rev,column,expand,unexpand,comm,cmp,pr,tsort,strings: read @any
md5sum,sha1sum,sha224sum,sha256sum,sha384sum,sha512sum,b2sum,cksum,sum,base64,base32,basenc: read @any
echo,printf,true,false,test,[,expr,seq,sleep,yes,numfmt,factor,id,whoami,groups,uname,nproc,arch: read @any
printenv,which,getconf,locale,tty,uptime,free,ps,pgrep,lsof,cal,ncal,logname,users,hostid: read @any
diff: read @any d:--paginate d:-l
grep,egrep,fgrep: read @any -e= -f= -m= -A= -B= -C= --regexp= --file= --max-count= --include= --exclude=
du: read @any --exclude= -d= --max-depth= -t= -B= -X=
date: read --date= -d= -f= --file= -I? -R -u --utc --iso-8601? --rfc-3339= -r= --reference= w:-s= w:--set= --rfc-email
file: read -b -i -L -h -z -k -r -0 -N -s -v -p -E --mime --mime-type --mime-encoding --brief --dereference -e= -F= \
  -f= -P= --files-from= --no-dereference w:-C w:--compile d:-m= d:--magic-file= d:-z d:-Z d:-S
tree: read -a -d -f -i -l -p -s -h -u -g -D -F -L= -P= -I= -C -n -J -X -q -N -v -t -c -r -U --noreport --dirsfirst \
  --prune --filelimit= --matchdirs --charset= --ignore-case --du --si --inodes --device -H= -T= w:-o=
uniq: read @writes-from-2 -c -d -D -u -i -z -f= -s= -w= --count --repeated --all-repeated? --group? --ignore-case \
  --unique --zero-terminated --skip-fields= --skip-chars= --check-chars= -#
xxd,hexdump,hd: read @writes-from-2 -a -b -c= -C -d -e= -E -f= -g= -i -l= -n= -o= -p -ps -s= -u -v -x w:-r
sort: read -b -d -f -g -i -M -h -n -R -r -V -c -C -k= -m -s -t= -u -z -S= --parallel= --batch-size= --debug --check? \
  --ignore-leading-blanks --dictionary-order --ignore-case --general-numeric-sort --ignore-nonprinting --month-sort \
  --human-numeric-sort --numeric-sort --random-sort --reverse --version-sort --sort= --key= --merge --stable \
  --field-separator= --unique --zero-terminated --buffer-size= --random-source= --files0-from= --help --version \
  w:-o= w:--output= w:-T= w:--temporary-directory= c:--compress-program=
jq: read -n -r -j -a -S -C -M -c -s -e -R --tab --indent= --arg= --argjson= --slurpfile= --rawfile= --args --jsonargs \
  --null-input --raw-output --raw-input --slurp --compact-output --sort-keys --color-output --monochrome-output \
  --exit-status --join-output --ascii-output --unbuffered --seq --stream d:-f= d:--from-file= d:-L=
find: read -H -L -P -D= -O -O1 -O2 -O3 -name= -iname= -path= -ipath= -wholename= -regex= -iregex= -type= \
  -xtype= -lname= -ilname= -maxdepth= -mindepth= -depth -d -mount -xdev -noleaf -daystart -follow -regextype= -amin= \
  -anewer= -atime= -cmin= -cnewer= -ctime= -mmin= -mtime= -newer= -newermt= -newerct= -newerat= -empty -executable \
  -readable -writable -false -true -fstype= -gid= -group= -inum= -links= -nogroup -nouser -perm= -samefile= -size= \
  -uid= -used= -user= -print -print0 -printf= -ls -prune -quit -a -and -o -or -not -warn -nowarn -ignore_readdir_race \
  -help -version --help --version w:-delete w:-fprint= w:-fprint0= w:-fls= w:-fprintf= d:-exec d:-execdir d:-ok \
  d:-okdir d:-files0-from=
sed: read @sed -n -E -r -s -u -z -e= --expression= --quiet --silent --regexp-extended --separate --unbuffered \
  --null-data --debug --posix --sandbox -l= --line-length= --help --version w:-i? w:--in-place? d:-f= d:--file= \
  --follow-symlinks
awk,mawk,gawk,nawk: read @awk -F= --field-separator= -v= --assign= --version --help d:-W= --posix --re-interval \
  d:-f= d:--file= d:-i= d:--include= d:-l= d:--load= d:-E= d:--exec= d:-e= d:--source= w:-o? d:-p? d:-D?

# Writing.
mkdir,rmdir,touch,truncate,mkfifo,mktemp,link,unlink,shred,tee: write @any
cp,mv,ln,rm,chmod,install: write @any d:--strip-program= d:-s d:--strip
gzip,gunzip,zcat,bzip2,bunzip2,bzcat,xz,unxz,xzcat,zstd,unzstd,lz4: write @any
csplit: write @any
dd: write @any
split: write -a= -b= -C= -d -x -n= -l= -t= -e -u -# --suffix-length= --additional-suffix= --bytes= --line-bytes= \
  --numeric-suffixes? --hex-suffixes? --lines= --number= --separator= --elide-empty-files --unbuffered --verbose \
  --help --version c:--filter=
tar: read @old-style @remote-file w:-c w:-x -t w:-r w:-u w:-A -d -f= -v -z -j -J -Z -C= -p -k -m -O -h -S -W -w -P -U \
  -n -X= -T= -N= -b= -s -a -B -i -o -l -R -g= -V= -L= w:--create w:--extract w:--get --list w:--append w:--update \
  w:--concatenate --diff --compare w:--delete --file= --verbose --gzip --gunzip --ungzip --bzip2 --xz --zstd --lzip \
  --lzma --compress --auto-compress --directory= --exclude= --exclude-from= --exclude-vcs --exclude-vcs-ignores \
  --exclude-caches --strip-components= --wildcards --no-wildcards --anchored --no-anchored --transform= --xform= \
  --files-from= --null --mtime= --owner= --group= --numeric-owner --mode= --sort= --format= --same-permissions \
  --preserve-permissions --no-same-permissions --no-same-owner --same-owner --keep-old-files --keep-newer-files \
  --skip-old-files --overwrite --unlink-first --recursive-unlink w:--remove-files --to-stdout --dereference \
  --hard-dereference --sparse --totals? --one-file-system --no-recursion --recursion --touch --verify --interactive \
  --absolute-names --force-local --checkpoint? --warning= --help --version c:-I= c:--use-compress-program= \
  c:--to-command= c:-F= c:--info-script= c:--new-volume-script= c:--checkpoint-action= c:--rmt-command= \
  c:--rsh-command= d:--volno-file= d:-M d:--multi-volume
zip: write -r -q -v -j -m -u -f -d -9 -0 -# -i -x -y -X -D -e -l -o -g -z -@ -A -b= -n= -t= -T -P= -s= --recurse-paths \
  --quiet --junk-paths --include --exclude --symlinks --test c:-TT= c:--unzip-command=
unzip: write -l -t -q -qq -v -p -c -o -n -j -d= -x -u -f -a -b -C -L -X -Z -z -P=
patch: danger @any
git: read @subcommands @first-operand-ends -C= --no-pager -P --version --help --no-optional-locks --literal-pathspecs \
  --glob-pathspecs --noglob-pathspecs --icase-pathspecs --no-replace-objects -v -h --html-path --man-path --info-path \
  d:-c= d:--config-env= d:--exec-path? d:--git-dir= d:--work-tree= d:--namespace= d:-p d:--paginate d:--bare \
  d:--super-prefix= d:--attr-source=
git status: read -s -b -v -z -u? --short --branch --show-stash --porcelain? --long --verbose --untracked-files? \
  --ignored? --ignore-submodules? --column? --no-column --ahead-behind --no-ahead-behind --renames --no-renames \
  --find-renames?
git log,git show,git diff,git shortlog,git whatchanged,git diff-tree,git diff-files,git diff-index,git rev-list: \
  read -p -u -s -U? -n= -# -L= -S= -G= -M? -C? -B? -D -R -a -b -w -z -q -r -t -c -g -i -e -m -E -F -l= -X? -W -N \
  --patch \
  --no-patch --unified= --raw --stat? --numstat --shortstat --dirstat? --summary --name-only --name-status --check \
  --cached --staged --merge-base --no-index --exit-code --quiet --color? --no-color --word-diff? --color-words? \
  --word-diff-regex= --minimal --patience --histogram --anchored= --diff-algorithm= --no-renames --find-renames? \
  --find-copies? --find-copies-harder --rename-empty --break-rewrites? --diff-filter= --pickaxe-all --pickaxe-regex \
  --full-index --binary --abbrev? --no-abbrev --text --ignore-space-at-eol --ignore-space-change --ignore-all-space \
  --ignore-blank-lines --ignore-cr-at-eol --function-context --ignore-submodules? --src-prefix= --dst-prefix= \
  --no-prefix --no-ext-diff --no-textconv --relative? --no-relative --inter-hunk-context= --submodule? --oneline \
  --graph --decorate? --no-decorate --decorate-refs= --all --branches? --tags? --remotes? --glob= --exclude= --since= \
  --after= --until= --before= --author= --committer= --grep= --all-match --invert-grep --regexp-ignore-case \
  --basic-regexp --extended-regexp --fixed-strings --perl-regexp --max-count= --skip= --merges --no-merges \
  --min-parents= --max-parents= --first-parent --not --reverse --topo-order --date-order --author-date-order --follow \
  --pretty? --format= --abbrev-commit --no-abbrev-commit --date= --relative-date --parents --children --left-right \
  --cherry-pick --cherry-mark --cherry --left-only --right-only --boundary --simplify-by-decoration --full-history \
  --dense --sparse --simplify-merges --ancestry-path --source --walk-reflogs --notes? --no-notes --show-signature \
  --count --objects --summary --numbered --email --group= --cc --combined-all-paths --root --no-commit-id --full-diff \
  --ita-invisible-in-index --no-walk? --do-walk --diff-merges= --no-diff-merges --max-age= --min-age= --encoding= \
  w:--output= d:--ext-diff d:--textconv d:-O= d:--show-pulls
git reflog: read @writes-from-1 -n= -# --all --date=
git rev-parse,git ls-files,git ls-tree,git describe,git name-rev,git merge-base,git for-each-ref,git show-ref: read @any
git check-ignore,git check-attr,git count-objects,git diff-name,git var,git version,git cherry,git show-branch: \
  read @any
git cat-file: read -t -s -e -p --batch? --batch-check? --batch-all-objects --buffer --follow-symlinks -z d:--filters \
  d:--textconv d:--batch-command?
git blame,git annotate: read -L= -l -t -s -e -w -f -n -p -b -c -M? -C? --root --show-stats --porcelain \
  --line-porcelain --show-name --show-number --show-email --date= --since= --abbrev= --first-parent --reverse \
  --ignore-rev= --ignore-revs-file= d:--contents=
git grep: read -n -i -l -L -w -v -E -F -G -P -c -h -H -I -a -e= -A= -B= -C= -W -p -q -r -o -z -# --cached --untracked \
  --no-index --line-number --count --files-with-matches --name-only --ignore-case --word-regexp --and --or --not \
  --all-match --heading --break --color? --max-depth= --recurse-submodules --null --column --only-matching \
  c:-O? c:--open-files-in-pager? d:--textconv d:-f=
git add,git rm,git mv,git reset,git restore,git switch,git checkout,git stash,git init,git clean,git notes: write \
  -A -a -u -f -n -v -q -N -p -i -k -r -b= -B= -c= -C= -d -x -X -e= -t -l -m= -s= -S -W -h -U --all --update --force \
  --dry-run --verbose --quiet --intent-to-add --patch --refresh --ignore-errors --cached --soft --mixed --hard --merge \
  --keep --staged --worktree --source= --ours --theirs --create= --detach --orphan= --track --no-track --guess \
  --no-guess --message= --include-untracked --keep-index --index --bare --initial-branch= --chmod= --renormalize \
  --pathspec-from-file= --pathspec-file-nul --sparse --exclude= --ignore-unmatch --discard-changes --conflict= \
  d:--template= d:--separate-git-dir= d:-e d:--edit d:--shared?
git commit,git tag,git branch,git merge,git cherry-pick,git revert: write -a -m= -F= -C= -c= -s -n -q -v -p -u? -i \
  -o -e \
  -d -D -f -l -r -t -u= -M -x -S? -z -A -# --all --message= --file= --amend --no-edit --signoff --no-verify \
  --verify --allow-empty \
  --allow-empty-message --author= --date= --reset-author --quiet --verbose --dry-run --short --branch --porcelain \
  --long --include --only --cleanup= --fixup= --squash= --reuse-message= --trailer= --list --delete --force --move \
  --copy --sort= --contains? --no-contains? --merged? --no-merged? --points-at= --format= --color? --no-color \
  --column? --no-column --abbrev? --show-current --annotate --ff --no-ff --ff-only --squash --no-commit --commit \
  --stat --no-stat --abort --continue --quit --skip --mainline= --remotes --set-upstream-to= --unset-upstream --track? \
  --no-track --create-reflog --ignore-case --into-name= --log? --no-log --allow-unrelated-histories --no-gpg-sign \
  d:--gpg-sign? d:-t= d:--template= d:--strategy= d:--edit d:--edit-description
git remote: write @any
git rebase: danger c:-x= c:--exec= @any
git difftool,git mergetool: danger c:-x= c:--extcmd= @any
git clone,git fetch,git pull,git push,git ls-remote: danger c:-u= c:--upload-pack= c:--receive-pack= c:--exec= @any
git archive: danger c:--exec= @any
git config,git submodule,git bisect,git filter-branch,git worktree,git gc,git hook,git apply,git am,git \
  maintenance: danger @any

# Wrappers: they do what the program after them does, and that one is judged by itself (wrappers.py).
timeout,nice,nohup,stdbuf,setsid,ionice,taskset,env,xargs,busybox,toybox,command,builtin,exec: read @any \
  @first-operand-ends
time: read @any @first-operand-ends w:-o= w:--output=
flock,script: write @any @first-operand-ends

# Starting other programs, reaching out, or running code: listed for the options whose value is a command.
python,python3: danger @first-operand-ends -b -B -d -E -h -i -I -O -OO -P -q -s -S -u -v -V -x -c= -m= -W= -X= \
  --help --version --check-hash-based-pycs=
sh,bash,dash,zsh,ksh,ash: danger @shell @plus @first-operand-ends -a -b -e -f -h -i -k -l -m -n -p -r -s -t -u -v \
  -x -B \
  -C -E -H -P -T -D -c -o= -O= +o= +O= --login --noprofile --norc --posix --restricted --verbose --noediting --help \
  --version --debugger --dump-strings --dump-po-strings --init-file= --rcfile= --pretty-print
make,gmake: danger @any c:--eval= -C= -f= -I= -j? -l? -o= -W= --directory= --file= --makefile= --include-dir=
man: danger @any c:-P= c:--pager= c:-H? c:--html?
rsync: danger @any c:-e= c:--rsh= c:--rsync-path=
less,more,vi,vim,nano,ed,ex,emacs,view: danger @any
gcc,cc,g++,c++,clang,ld,as: danger @any c:-wrapper= -B= -o= -I= -L= -l=
perl,ruby,node,php,lua,tclsh,java,go,cargo,deno,bun,npm,npx,pip,pip3,pytest,tox,nox: danger @any
"""
