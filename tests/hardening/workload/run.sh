#!/bin/bash
# The workload that the seccomp profile is written for. Every step prints its name; the first that fails ends it.
set -euo pipefail
step() { echo "step: $1"; }
cd /workspace

step venv
python3 -m venv --system-site-packages venv
. venv/bin/activate

step pip
pip install --quiet --no-index --disable-pip-version-check ./sample-1.0-py3-none-any.whl
python -c 'import sample; assert sample.answer == 42'

step pytest
python -m pytest -q -p no:cacheprovider inside.py

step git
git init --quiet --initial-branch=main repo
cd repo
git config user.name agent
git config user.email agent@example.invalid
for number in 1 2 3; do echo "$number" >file; git add file; git commit --quiet -m "commit $number"; done
git gc --quiet
cd ..
git clone --quiet repo clone
git -C clone log --oneline | wc -l | grep -qx 3
git -C clone checkout --quiet -b other
git -C clone worktree add --quiet ../tree HEAD~1 2>/dev/null

step gcc
cat >threads.c <<'C'
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
static void *work(void *n) { return malloc(*(int *)n); }
int main(void) {
    pthread_t threads[8];
    int size = 1024;
    for (int i = 0; i < 8; i++) if (pthread_create(&threads[i], NULL, work, &size)) return 1;
    for (int i = 0; i < 8; i++) pthread_join(threads[i], NULL);
    puts("threads");
    return 0;
}
C
gcc -O2 -pthread -o threads threads.c
./threads | grep -qx threads

step make
printf 'all: a b\na b:\n\tsleep 0.05; touch $@\n' >Makefile
make --silent -j2
test -e a -a -e b

step node
cat >program.js <<'J'
const { Worker } = require("worker_threads");
const { execFileSync } = require("child_process");
const http = require("http");
const fs = require("fs");
const worker = new Worker("require('worker_threads').parentPort.postMessage(6 * 7)", { eval: true });
worker.on("message", (value) => {
  if (value !== 42) process.exit(1);
  if (execFileSync("echo", ["child"]).toString() !== "child\n") process.exit(2);
  fs.writeFileSync("copy-me", "x");
  fs.copyFileSync("copy-me", "copied");
  const server = http.createServer((request, response) => response.end("served"));
  server.listen(0, "127.0.0.1", () => {
    http.get({ host: "127.0.0.1", port: server.address().port }, (response) => {
      response.on("data", (data) => {
        if (data.toString() !== "served") process.exit(3);
        server.close();
      });
    });
  });
});
J
node program.js

step tar
tar -czf all.tar.gz clone
mkdir out
tar -xpzf all.tar.gz -C out
diff -r clone/.git/objects out/clone/.git/objects
cp -a clone clone2
install -m 755 threads out/threads

step perl
perl -e 'use POSIX; my $pid = fork; if (!$pid) { exit 3 } waitpid $pid, 0; exit(($? >> 8) == 3 ? 0 : 1)'

step shell
mkfifo pipe
echo through >pipe &
grep -qx through <pipe
diff <(echo same) <(echo same)
wait
echo to-stderr >/dev/stderr
trap 'exit 0' TERM

echo done
