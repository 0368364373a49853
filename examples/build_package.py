"""Builds a small program in the container and takes the one file that came out of it."""

import hashlib

import mindx

MAIN = 'def main():\n    print("hello from a zip")\n'

with mindx.SyncSession() as session:
    session.mkdir("src/hello")
    session.write("src/hello/__init__.py", MAIN)
    built = session.run(["python3", "-m", "zipapp", "src", "--main", "hello:main", "--output", "hello.pyz"])
    assert built.ok, built.stderr_text
    print(session.run(["python3", "hello.pyz"]).stdout_text, end="")
    content = session.read("hello.pyz")  # bytes, and no more than bytes: nothing runs here
    print("a zip:", b"PK" in content[:64], "sha256:", len(hashlib.sha256(content).hexdigest()), "digits")
