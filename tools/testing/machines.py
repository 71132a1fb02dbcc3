# SPDX-License-Identifier: GPL-2.0-only
"""Runs virtual machines side by side, for the tests and for the benchmark."""

import concurrent.futures
import threading

from common import RUN, end, start


def command_line(command, env=(), partitions=None, **options):
    """
    That of tools/testing/vm/run, with @options by their names; what is None, "" or
    False is left out.  @partitions: a file to be written, and its text.
    """
    argv = [RUN]
    if partitions:
        path, text = partitions
        with open(path, "w", encoding="ascii") as file:
            file.write(text.strip() + "\n")
        options["partitions"] = path
    for name, value in options.items():
        if value is None or value is False or value == "":
            continue
        argv.append("--" + name.replace("_", "-"))
        if value is not True:
            argv.append(str(value))
    for item in env:
        argv += ["--env", item]
    return [*argv, "--", *command]


class Runner:
    """Runs jobs, some at a time, and stops what runs when told."""

    def __init__(self):
        self.procs = set()
        self.lock = threading.Lock()
        self.stopping = False

    def run(self, job):
        """One job, from its start to its end."""
        raise NotImplementedError

    def broke(self, job, error):
        """run() raised an error."""
        raise NotImplementedError

    def run_all(self, jobs, at_once):
        """The jobs in their order, some at a time."""
        with concurrent.futures.ThreadPoolExecutor(max(1, at_once)) as pool:
            for job in jobs:
                pool.submit(self._run, job)

    def _run(self, job):
        if self.stopping:
            return
        try:
            self.run(job)
        except Exception as error:  # pylint: disable=broad-except
            self.broke(job, error)

    def stream(self, argv, hear, watch=None, **kwargs):
        """
        Run a command and give its output to @hear, line by line; its status.
        @watch is called when it has started, and what that returns at each line.
        """
        with start(argv, **kwargs) as proc:
            line_came = watch(proc) if watch else lambda: None
            with self.lock:
                self.procs.add(proc)
            try:
                for line in proc.stdout:
                    line_came()
                    hear(line)
            finally:
                with self.lock:
                    self.procs.discard(proc)
        return proc.returncode

    def stop(self, *_signal):
        """End everything that runs."""
        self.stopping = True
        with self.lock:
            for proc in self.procs:
                end(proc)
