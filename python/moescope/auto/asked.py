# SPDX-License-Identifier: Apache-2.0
"""What Python runs, from 3.14 on, in a program that `moescope attach --inside` joins (PEP 768).

On its main thread, and Python prints whatever is raised here: so a thread does the rest. It asks the
moescope that waits for it for the line that older versions are handed (joining.c). If there is none any
more, nothing happens.
"""


def _ask() -> None:
    try:
        import _socket
        import os
        import signal
        import sys

        faults = {signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL}
        signal.pthread_sigmask(signal.SIG_BLOCK, set(signal.valid_signals()) - faults)
        line = b""
        asked = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
        try:
            asked.connect(f"\0moescope-join-{os.getpid()}")
            who = asked.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, 12)
            if int.from_bytes(who[4:8], sys.byteorder) in (0, os.geteuid()):
                while part := asked.recv(8192):
                    line += part
        finally:
            asked.close()
        exec(line, {})
    except BaseException:
        pass  # nobody is there to hear it


try:  # noqa: SIM105
    __import__("_thread").start_new_thread(_ask, ())
except Exception:
    pass  # no thread can be had, or Python is ending
