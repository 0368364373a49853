"""Tries to get out in a few ways and prints what became of each."""

import mindx

ATTEMPTS = {
    "open a connection": "import socket; socket.create_connection(('192.0.2.1', 80), 2)",
    "write to the system": "open('/etc/passwd', 'a').write('x')",
    "become root": "import os; os.setuid(0)",
    "stop the guest": "import os; os.kill(1, 9)",
    "fill the memory": "b'x' * (2 << 30)",
    "run for ever": "while True: pass",
}

with mindx.SyncSession() as session:
    for name, program in ATTEMPTS.items():
        result = session.run(["python3", "-c", program], timeout_s=3)
        last = (result.stderr_text.splitlines() or [""])[-1]
        print(f"{name}: {result.exit_cause.value} {last}".rstrip())
    print("and the session goes on:", session.run(["echo", "yes"]).stdout_text, end="")
