"""A flow run ends with the process that started it: what a killed `dpbo serve` began does not go on unseen.

A study may be killed at any moment: run again, it continues, and nothing is paid twice.
"""

import os
import signal
import threading
import time

PAUSE = 1.0  # seconds between two looks


def follow(starter: str | None) -> None:
    """From now on, end this process when `starter`, its parent, is no more; nothing if another started it."""
    if starter is not None and starter.isdecimal() and os.getppid() == int(starter):
        threading.Thread(target=_watch, args=(int(starter),), daemon=True).start()


def _watch(starter: int) -> None:
    while os.getppid() == starter:
        time.sleep(PAUSE)
    os.kill(os.getpid(), signal.SIGKILL)
