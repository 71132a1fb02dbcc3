# SPDX-License-Identifier: GPL-2.0-only
"""What happens to a fabric while it is used."""

import threading
import time

from .fabric import sm
from .ksft import defer
from .utils import slow, wait_until


class Trouble(threading.Thread):
    """
    A cable is out for a moment, several times; then the SM dies and its standby
    takes over.  With OpenSM on both ports; @stream is carried on, too, and
    compared at the end.
    """

    TIMES, OUT, BETWEEN = 3, 0.5, 1

    def __init__(self, first, second, stream):
        super().__init__(daemon=True)
        self.first, self.second, self.stream = first, second, stream
        self.standby = sm.with_standby(first, second)
        self.error = None
        defer(second.link, True)

    def run(self):
        try:
            for _ in range(self.TIMES):
                time.sleep(self.BETWEEN)
                self.second.link(False)
                time.sleep(self.OUT)
                self.second.link(True)
                self.second.wait_active()
                self.stream.wait_progress()
            time.sleep(self.BETWEEN)
            sm.stop(hard=True, but=self.standby)
            wait_until(lambda: self.second.sm_lid() == self.second.lid(), 20,
                       "the second SM is the master")
            self.stream.wait_progress()
        except Exception as error:  # pylint: disable=broad-exception-caught
            self.error = error

    def beside(self, work):
        """Do some work again and again until all of it has happened."""
        self.start()
        defer(self.join, slow(30))
        rounds = 0
        while not rounds or self.is_alive():
            work()
            rounds += 1
        self.join()
        if self.error:
            raise self.error
        self.stream.finish()
        return rounds
