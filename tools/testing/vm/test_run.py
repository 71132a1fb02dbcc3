#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""
Tests of the runner.  Those in class Machines boot some, without a fabric;
"make check" leaves most of these out.
"""

import hashlib
import io
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import types
import unittest
from contextlib import redirect_stderr
from unittest import mock

HERE = os.path.dirname(os.path.realpath(__file__))
RUN = os.path.join(HERE, "run")
sys.path[:0] = [HERE, os.path.dirname(HERE)]
sys.dont_write_bytecode = True

# pylint: disable=wrong-import-position
import slowness  # noqa: E402
from common import load_program  # noqa: E402

run = load_program(RUN)


class Streams(unittest.TestCase):
    """The end of a stream is found, and nothing else is taken for it."""

    END = b"<<end 0123>>"

    def pump(self, *parts):
        """What comes out when the guest writes @parts."""
        ours, guest = socket.socketpair()
        with tempfile.TemporaryFile() as file, ours:
            pump = run.Pump(ours, file.fileno(), self.END)
            pump.start()
            for part in parts:
                guest.sendall(part)
                time.sleep(0.01)
            guest.close()
            pump.finish()
            file.seek(0)
            return file.read(), pump.ended.is_set()

    def test_slow_reader_does_not_stop_the_guest(self):
        ours, guest = socket.socketpair()
        reader, writer = os.pipe()
        data = b"x" * 3000000
        pump = run.Pump(ours, writer, self.END)
        pump.start()
        guest.settimeout(10)
        guest.sendall(data + self.END)
        self.assertTrue(pump.ended.wait(10))
        with os.fdopen(reader, "rb") as file:
            self.assertEqual(len(file.read(len(data))), len(data))
        pump.finish()
        for end in (ours, guest):
            end.close()
        os.close(writer)

    def test_whole(self):
        self.assertEqual(self.pump(b"text\n" + self.END), (b"text\n", True))

    def test_in_pieces(self):
        parts = [bytes([octet]) for octet in b"a<<en<<end b" + self.END]
        self.assertEqual(self.pump(*parts), (b"a<<en<<end b", True))

    def test_what_comes_later_is_dropped(self):
        self.assertEqual(self.pump(b"1", self.END + b"2"), (b"1", True))

    def test_stream_that_breaks_off(self):
        self.assertEqual(self.pump(b"text<<end 01"), (b"text<<end 01", False))

    def test_octets_of_all_kinds(self):
        data = bytes(range(256)) * 1000
        self.assertEqual(self.pump(data, self.END), (data, True))


class FirstProgram(unittest.TestCase):
    """Only a machine that has not started one may be the host's fault."""

    def test_by_the_kernels_log(self):
        with tempfile.TemporaryDirectory() as where:
            log = os.path.join(where, "console.log")
            for text, runs in (
                    ("SeaBIOS", False),
                    ("[    0.000000] Linux version 6.12\n", False),
                    ("[    4.734375] Run /init as init process\n", True)):
                with open(log, "w", encoding="ascii") as file:
                    file.write(text)
                for phase in ("boot", "set-up"):
                    machine = types.SimpleNamespace(phase=phase, log=log)
                    self.assertEqual(run.Machine.runs_program(machine),
                                     runs or phase != "boot", text)


class Options(unittest.TestCase):
    """The command line."""

    def refused(self, *argv):
        """Is it?"""
        try:
            with redirect_stderr(io.StringIO()):
                run.parse_args(list(argv))
        except SystemExit:
            return True
        return False

    def test_command_is_left_alone(self):
        args = run.parse_args(["--hcas", "3", "--", "ls", "--all", "--", "x"])
        self.assertEqual(args.command, ["ls", "--all", "--", "x"])
        self.assertEqual(args.hcas, 3)

    def test_without_dashes(self):
        args = run.parse_args(["--sm", "none", "ls", "--sm", "opensm"])
        self.assertEqual((args.sm, args.command),
                         ("none", ["ls", "--sm", "opensm"]))

    def test_shell_needs_no_command(self):
        self.assertEqual(run.parse_args(["--shell"]).command[0], "bash")
        self.assertTrue(self.refused("--hcas", "2"))

    def test_icount_is_one_cpu(self):
        args = run.parse_args(["--icount", "--cpus", "4", "true"])
        self.assertEqual(args.cpus, 1)

    def test_nonsense_is_refused(self):
        for argv in (["--hcas", "-1"], ["--ports", "3"], ["--cpus", "0"],
                     ["--env", "1=2"], ["--env", "A"], ["--timeout", "0"],
                     ["--sm", "ufm"], ["--frobnicate"], ["--hcas", "37"],
                     ["--hcas", "19", "--ports", "2"],
                     ["--hcas", "5", "--fabric-args", "switch_ports=4"],
                     ["--image", "sarge"], ["--disk", "/no/such"],
                     ["--image", "bookworm", "--ipoib-args", "a=1"]):
            with self.subTest(argv=argv):
                self.assertTrue(self.refused(*argv, "--", "true"))


class Archive(unittest.TestCase):
    """The initramfs."""

    def test_cpio_reads_it(self):
        archive = run.Cpio()
        archive.directory("dir")
        archive.file("dir/a", "text", 0o755)
        archive.file("b", b"\0" * 4097)
        out = subprocess.run(["cpio", "-itv", "--quiet"],
                             input=archive.bytes(), capture_output=True,
                             check=True)
        lines = out.stdout.decode().splitlines()
        self.assertEqual([line.split()[-1] for line in lines],
                         ["dir", "dir/a", "b"])
        self.assertTrue(lines[1].startswith("-rwxr-xr-x"))
        self.assertIn(" 4097 ", lines[2])

    def test_closure_is_in_loading_order(self):
        kernel = run.Kernel("6.12")
        order = [run.module_name(p) for p in kernel.closure(["9p", "overlay"])]
        self.assertLess(order.index("netfs"), order.index("9pnet"))
        self.assertLess(order.index("9pnet"), order.index("9p"))
        self.assertEqual(order[-1], "overlay")
        self.assertEqual(len(order), len(set(order)))


class OwnKernels(unittest.TestCase):
    """What machines with kernels of our own get in addition."""

    def machine(self, series, *argv):
        """A machine that is not started."""
        answer = mock.Mock(returncode=0, stdout=f"/none/6.12.1-{series}\n")
        with mock.patch.object(run.subprocess, "run", return_value=answer):
            kernel = run.Kernel(series)
        return run.Machine(run.parse_args([*argv, "--", "true"]), kernel,
                           "/none", None)

    @staticmethod
    def option(machine, name):
        """The value of an option of QEMU's."""
        words = machine.qemu_args("/none/initramfs")
        return words[words.index(name) + 1]

    def test_memory_and_parameters(self):
        debug, other = self.machine("debug"), self.machine("6.12")
        self.assertEqual(self.option(debug, "-m"), "2048")
        self.assertEqual(self.option(other, "-m"), "1024")
        self.assertEqual(self.option(self.machine("debug", "--mem", "3000"),
                                     "-m"), "3000")
        words = self.option(debug, "-append").split()
        self.assertIn("acpi=noirq", words)
        self.assertIn("kmemleak=on", words)
        self.assertNotIn("acpi=noirq", self.option(other, "-append"))

    def test_last_word_is_the_users(self):
        words = self.option(self.machine(
            "debug", "--append", "kmemleak=off"), "-append").split()
        self.assertLess(words.index("kmemleak=on"),
                        words.index("kmemleak=off"))

    def test_console_waits_for_nobody(self):
        machine = self.machine("6.12")
        machine.chardev("console")
        console = machine.theirs["console"]
        console.setblocking(False)
        for _ in range(40000):
            console.send(b"x")

    def test_slowness_reaches_the_command(self):
        for series, factor in (("debug", slowness.KERNELS["debug"]),
                               ("6.12", 1)):
            script = self.machine(series, "--env",
                                  "TCG_SLOW=4").command_script()
            self.assertIn(f"export TCG_SLOW={4 * factor}\n", script)
        self.assertGreater(slowness.KERNELS["debug"], 1)


class Runs(unittest.TestCase):
    """What starts the runner."""

    def vm(self, *argv, timeout=30, **kwargs):
        """Run something; (status, stdout, stderr)."""
        out = subprocess.run(
            [RUN, "--hcas", "0", "--timeout", str(timeout), *argv],
            capture_output=True, timeout=120, check=False,
            stdin=subprocess.DEVNULL, **kwargs)
        return out.returncode, out.stdout, out.stderr.decode()

    def sh(self, script, *argv, **kwargs):
        """Run a shell script."""
        return self.vm(*argv, "--", "sh", "-c", script, **kwargs)


class Refusals(Runs):
    """What is refused before there is a machine."""

    def test_what_cannot_work(self):
        for argv in (["--ipoib", "/nonexistent.ko"], ["--kernel", "2.4"],
                     ["--partitions", "/nonexistent"],
                     ["--ipoib", "/etc/passwd"]):
            with self.subTest(argv=argv):
                status, out, err = self.vm(*argv, "--", "true")
                self.assertEqual((status, out), (run.STATUS_RUNNER, b""))
                self.assertIn("run: ", err)

    def test_old_or_missing_qemu(self):
        with tempfile.TemporaryDirectory() as where:
            for name in ("sh", "uname", "env", "python3"):
                os.symlink(os.path.realpath(f"/usr/bin/{name}"),
                           os.path.join(where, name))
            env = dict(os.environ, PATH=where)
            status, _, err = self.vm("--", "true", env=env)
            self.assertEqual(status, run.STATUS_RUNNER)
            self.assertIn("vm/setup", err)
            fake = os.path.join(where, "qemu-system-x86_64")
            with open(fake, "w", encoding="ascii") as file:
                file.write("#!/bin/sh\necho QEMU emulator version 7.2.19\n")
            os.chmod(fake, 0o755)
            status, _, err = self.vm("--", "true", env=env)
            self.assertEqual(status, run.STATUS_RUNNER)
            self.assertIn("7.2.19 is too old", err)


class Machines(Runs):
    """Whole runs."""

    def test_streams_status_and_place(self):
        status, out, err = self.sh(
            "pwd; echo to stderr >&2; echo again >/dev/stderr; exit 7")
        self.assertEqual((status, out.decode()), (7, run.ROOT + "\n"))
        self.assertTrue(err.startswith("to stderr\nagain\n"), err)

    def test_big_output_is_whole(self):
        _, out, err = self.sh(
            "head -c 9000000 /dev/urandom | tee /tmp/x; md5sum </tmp/x >&2")
        self.assertEqual(len(out), 9000000)
        self.assertEqual(err.split()[0], hashlib.md5(out).hexdigest())

    def test_files_of_the_host_stay_as_they_are(self):
        with tempfile.TemporaryDirectory() as where:
            path = os.path.join(where, "file")
            with open(path, "w", encoding="ascii") as file:
                file.write("mine")
            status, out, _ = self.sh(
                f"cat {path}; echo changed > {path} && cat {path};"
                f"echo new > {where}/new; echo kept > /run/artifacts/kept",
                "--artifacts", where)
            self.assertEqual((status, out), (0, b"minechanged\n"))
            with open(path, encoding="ascii") as file:
                self.assertEqual(file.read(), "mine")
            with open(os.path.join(where, "kept"), encoding="ascii") as file:
                self.assertEqual(file.read(), "kept\n")
            self.assertFalse(os.path.exists(os.path.join(where, "new")))

    def test_kernel_report_fails_the_run(self):
        status, out, err = self.sh(
            "echo 'IPOIB-TEST: some.test' > /dev/kmsg;"
            "echo 'refcount_t: underflow' > /dev/kmsg; echo fine")
        self.assertEqual((status, out), (run.STATUS_REPORT, b"fine\n"))
        self.assertIn("refcount_t: underflow", err)
        self.assertIn("some.test", err)
        self.assertIn("kernel log: ", err)

    def test_panic(self):
        status, out, err = self.sh("echo a; sleep 0.3; echo c "
                                   "> /proc/sysrq-trigger; sleep 9; echo b")
        self.assertEqual((status, out), (run.STATUS_REPORT, b"a\n"))
        self.assertIn("Kernel panic - not syncing", err)

    def test_time_out(self):
        with tempfile.TemporaryDirectory() as where:
            log = os.path.join(where, "log")
            status, out, err = self.sh("echo a; sleep 1000", "--klog", log,
                                       timeout=15)
            self.assertEqual((status, out), (run.STATUS_TIMEOUT, b"a\n"))
            self.assertIn("time out after 15 s", err)
            with open(log, encoding="utf-8", errors="replace") as file:
                self.assertIn("sysrq: Show Blocked State", file.read())

    def test_machine_that_goes_away(self):
        status, _, err = self.sh("/run/vm/busybox poweroff -f")
        self.assertEqual(status, run.STATUS_RUNNER)
        self.assertIn("without a result", err)

    def test_emulator_that_crashes_at_boot(self):
        with tempfile.TemporaryDirectory() as where:
            fake = os.path.join(where, run.QEMU)
            with open(fake, "w", encoding="ascii") as file:
                file.write(f"""#!/bin/sh
                    touch {where}/starts
                    [ "$1" = --version ] || echo >> {where}/starts
                    [ "$1" = --version -o $(wc -l < {where}/starts) -gt "$BAD" ] &&
                        exec {shutil.which(run.QEMU)} "$@"
                    kill -ABRT $$
                    """)
            os.chmod(fake, 0o755)
            env = dict(os.environ, PATH=f"{where}:{os.environ['PATH']}")
            for bad, want in ((run.MOST_STILLBORN, 7),
                              (run.MOST_STILLBORN + 1, run.STATUS_RUNNER)):
                with self.subTest(bad=bad):
                    status, _, err = self.sh("exit 7",
                                             env=dict(env, BAD=str(bad)))
                    self.assertEqual(status, want)
                    self.assertEqual(err.count("another one"),
                                     run.MOST_STILLBORN)
                os.unlink(os.path.join(where, "starts"))

    def test_kernel_that_ends_before_its_first_program(self):
        status, out, err = self.sh("echo a", "--append", "rdinit=/none")
        self.assertEqual((status, out), (run.STATUS_REPORT, b""))
        self.assertEqual(err.count("another one"), run.MOST_STILLBORN)

    def test_kernel_that_hangs_before_its_first_program(self):
        with tempfile.TemporaryDirectory() as where:
            fake = os.path.join(where, run.QEMU)
            with open(fake, "w", encoding="ascii") as file:
                file.write(f"""#!/bin/sh
                    [ "$1" = --version ] &&
                        exec {shutil.which(run.QEMU)} "$@"
                    exec sleep 1000
                    """)
            os.chmod(fake, 0o755)
            path = f"{where}:{os.environ['PATH']}"
            err = io.StringIO()
            with mock.patch.dict(os.environ, PATH=path), \
                 mock.patch.object(run, "START_LIMIT", 0.1), \
                 redirect_stderr(err):
                status = run.main(["--hcas", "0", "--", "true"])
        self.assertEqual(status, run.STATUS_TIMEOUT)
        self.assertIn("has not started a program", err.getvalue())
        self.assertEqual(err.getvalue().count("another one"),
                         run.MOST_STILLBORN)

    def test_environment(self):
        _, out, _ = self.vm("--env", "A=b c'd", "--append", "leak=1", "--",
                            "env")
        names = dict(line.split("=", 1) for line in
                     out.decode().splitlines())
        self.assertEqual(names["A"], "b c'd")
        self.assertEqual(names["IPOIB_KIND"], "none")
        self.assertFalse({n for n in names if n.startswith("VM_")})
        self.assertNotIn("leak", names)

    def test_one_cpu_and_memory(self):
        _, out, _ = self.sh("nproc; awk '/MemTotal/ { print $2 }' "
                            "/proc/meminfo", "--icount", "--mem", "700")
        cpus, memory = map(int, out.split())
        self.assertEqual(cpus, 1)
        self.assertTrue(600000 < memory < 720000, memory)

    def test_shell(self):
        out = subprocess.run(
            [RUN, "--hcas", "0", "--timeout", "40", "--shell", "--", "bash",
             "--norc", "-i"],
            input=b"tty; exit 5\n", capture_output=True, timeout=120,
            check=False)
        self.assertEqual(out.returncode, 5, out.stderr)
        self.assertIn(b"/dev/hvc0", out.stdout)

    def test_end_of_the_runner_is_the_end_of_the_machine(self):
        where = tempfile.TemporaryDirectory()
        self.addCleanup(where.cleanup)
        log = os.path.join(where.name, "log")
        with subprocess.Popen(
                [RUN, "--hcas", "0", "--klog", log, "--", "sh", "-c",
                 "echo a; sleep 1000"],
                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as proc:
            self.assertEqual(proc.stdout.readline(), b"a\n")
            children = subprocess.run(
                ["pgrep", "-P", str(proc.pid)], capture_output=True,
                text=True, check=True).stdout.split()
            self.assertTrue(children)
            proc.terminate()
            self.assertEqual(proc.wait(30), 143)
        for child in children:
            self.assertFalse(os.path.exists(f"/proc/{child}/exe"))
        with open(log, encoding="utf-8", errors="replace") as file:
            self.assertIn("command starts", file.read())


if __name__ == "__main__":
    unittest.main()
