# SPDX-License-Identifier: MIT
"""vmscope flow with the types of Linux guests: the truth is what the guest's programs were told to
do, and what the guest itself says of its files, processes, sockets and events."""
import collections
import re
import unittest

from test_agent_engine import LinuxGuest
from test_flow import Tracer
from vmscope_command import vmscope

CALLS = 20
NAME = "file->f_path.dentry->d_name.name"
INODE = "file->f_inode"
TRACING = "/sys/kernel/tracing"


class Types(Tracer):
    """Of one kernel."""

    def texts(self, record):
        return {value["name"]: value.get("text") for value in record["values"]}

    def shown(self, spec, condition, run):
        """The texts of all hits: what people read, by the entries' names."""
        return [self.texts(record) for record in self.records(spec, "--if", condition, run=run)]

    def test_arguments(self):
        """Without entries, a function is shown as it was called."""
        traced = self.trace("vfs_write", "--if", f'{NAME} == "five"',
                            run="dd if=/dev/zero of=/tmp/five bs=777 count=5 2>/dev/null")
        *lines, summary = traced.out.splitlines()
        self.assertRegex(summary, "^5 hits")
        for line in lines:
            self.assertRegex(line, r"  dd \d+/\d+  vfs_write\(file=0xff[0-9a-f]{14}, buf="
                                   rf"{self.zeros}, count=777, pos=0xff[0-9a-f]{{14}}\)$")

    def test_file(self):
        """A file that is written: its name, its sizes, its inode as stat says."""
        hits = self.shown(f"vfs_write={NAME},count,*pos,{INODE}->i_ino,{INODE}->i_mode,"
                          f"{INODE}->i_sb->s_type->name,file->f_path.dentry->d_parent->d_iname",
                          f'count > 700 && {NAME} == "known"',
                          run="mkdir -p /tmp/above; cd /tmp/above; dd if=/dev/zero of=known bs=777 "
                              "count=4 2>/dev/null; stat -c '%i 0x%f' known")
        inode, mode = self.output.split()
        self.assertEqual([hit["*pos"] for hit in hits], ["0", "777", "1554", "2331"])
        for hit in hits:
            del hit["*pos"]
            self.assertEqual(list(hit.values()), ['"known"', "777", inode, str(int(mode, 16)),
                                                  '"tmpfs"', '"above"'])

    def test_system_call(self):
        """A structure of the registers with which a program has called the kernel."""
        first, second, third = self.registers
        hits = self.shown(f"{self.lseek}={first},(int){second},{third},*regs", f"{first} == 77",
                          run=f"probed calls {CALLS}")
        self.assertEqual([[hit[first], hit[f"(int){second}"], hit[third]] for hit in hits],
                         [["77", str(1000 + i), str(2000 + i)] for i in range(CALLS)])
        for hit in hits:
            self.assertIn(self.in_registers(hit), hit["*regs"])

    def test_current(self):
        """The task that runs, and its parent."""
        fd = self.registers[0]
        records = self.records(f"{self.lseek}={fd},current->comm,current->tgid,"
                               "current->real_parent->tgid", "--if",
                               f'{fd} == 77 && current->comm == "probed"',
                               run="sh -c 'echo $$; probed calls 3; true'")
        self.assertEqual(len(records), 3)
        for record in records:
            self.assertEqual(list(self.texts(record).values()),
                             ["77", '"probed"', str(record["pid"]), self.output.split()[0]])

    def test_socket(self):
        """Who is called where, and what is sent: the ports as the kernel shows them."""
        common, to = "sk->__sk_common", "((struct sockaddr_in *)uaddr)"
        talk = ("ifconfig lo 127.0.0.1 up; nc -l -p 7777 >/tmp/heard & "
                "while ! grep -q ':1E61 .* 0A' /proc/net/tcp6; do sleep 0.1; done;"
                "echo 'over the wire' | nc 127.0.0.1 7777; wait;"
                "cat /tmp/heard /proc/net/tcp /proc/net/tcp6")
        records = self.records(
            f"tcp_v4_connect={to}->sin_port,{to}->sin_addr,{to}->sin_family,sk->sk_type",
            f"tcp_sendmsg={common}.skc_dport,{common}.skc_num,{common}.skc_family,size,"
            f"{common}.skc_rcv_saddr,sk->sk_socket->state", "--if",
            "sk->__sk_common.skc_family == AF_INET", run=talk)
        # One end waits for what may still come. It is of IPv6 if it is nc's that has listened.
        found = re.search(":1E61 [0-9A-F]+:([0-9A-F]{4}) |:([0-9A-F]{4}) [0-9A-F]+:1E61 ",
                          self.output)
        port = int(found[1] or found[2], 16)
        connect, send = (list(self.texts(record).values()) for record in records)
        self.assertEqual(connect, ["htons(7777)", "{.s_addr=htonl(0x7f000001)}", "2", "1"])
        self.assertEqual(send, ["htons(7777)", str(port), "2", "14", "htonl(0x7f000001)",
                                "SS_CONNECTED"])
        self.assertIn("over the wire", self.output)

    def test_enumerators(self):
        """Constants by the names that the kernel's source has."""
        hits = self.shown("inet_release=sock->state,sock->type,sock->sk->__sk_common.skc_state",
                          "sock->state == SS_UNCONNECTED && sock->type == SOCK_STREAM "
                          "&& sock->sk->__sk_common.skc_state == TCP_CLOSE",
                          run="ifconfig lo 127.0.0.1 up; nc 127.0.0.1 1 </dev/null; true")
        self.assertEqual([list(hit.values()) for hit in hits], [["SS_UNCONNECTED", "1", "7"]])

    def test_unreadable(self):
        """A pointer that leads nowhere says so, wherever it is in a path."""
        record, = self.records(f"vfs_write=((struct file *)8)->f_mode,*(struct path *)0,{NAME},"
                               "((struct file *)file->f_pos)->f_path.dentry->d_name.name", "--if",
                               f'{NAME} == "nowhere"', run="echo >/tmp/nowhere")
        self.assertEqual([(value["status"], value["value"], value["text"])
                          for value in record["values"]],
                         [("unreadable", None, "(unreadable)"), ("unreadable", None, "(unreadable)"),
                          ("known", "nowhere", '"nowhere"'),
                          ("unreadable", None, "(unreadable)")])

    def test_json(self):
        record, = self.records(f"vfs_write=count,{NAME},file->f_path,pos", "--if",
                               f'{NAME} == "json"', run="printf abc >/tmp/json")
        count, name, path, pos = record["values"]
        self.assertEqual(count, {"name": "count", "status": "known", "value": "0x3",
                                 "type": "size_t", "text": "3"})
        self.assertEqual((name["type"], name["value"]), ("const unsigned char *", "json"))
        self.assertEqual((path["type"], len(bytes.fromhex(path["value"]))), ("struct path", 16))
        self.assertRegex(path["text"], r"^\{\.mnt=0xff[0-9a-f]+, \.dentry=0xff[0-9a-f]+\}$")
        self.assertEqual((pos["type"], pos["text"]), ("loff_t *", pos["value"]))

    def test_pattern(self):
        """Each function has its own arguments."""
        traced = self.trace("vfs_mk*", "vfs_rmdir", run="mkdir /tmp/made; rmdir /tmp/made")
        calls = [line.split("  ")[-1] for line in traced.out.splitlines()[:-1]]
        self.assertRegex(calls[0], r"^vfs_mkdir\(.*dentry=0xff[0-9a-f]+, mode=511\)$")
        self.assertRegex(calls[1], r"^vfs_rmdir\(.*dir=0xff[0-9a-f]+, dentry=0xff[0-9a-f]+\)$")

    def test_call(self):
        """What a function is given, and what it returns, of its type."""
        traced = self.trace("vfs_write:call", "do_filp_open:call=pathname->name;retval", "--if-return",
                            "retval == 777 || retval == -ENOENT",
                            run="dd if=/dev/zero of=/tmp/call bs=777 count=1 2>/dev/null;"
                                "cat /not/there 2>/dev/null; true")
        text = traced.out
        self.assertRegex(text, r"  vfs_write\(file=0xff[0-9a-f]+, .*count=777, .*\)  ->  retval=777  ")
        self.assertRegex(text, r'  pathname->name="/not/there"  ->  retval=ERR_PTR\(-ENOENT\)  ')
        # Arguments are those of the call, also when it returns.
        traced = self.trace("vfs_write:call=;count,file->f_path.dentry->d_name.name", "--if-return",
                            "count == 778", run="dd if=/dev/zero of=/tmp/call bs=778 count=1 2>/dev/null")
        self.assertRegex(traced.out, r'  ->  count=778  file->f_path.dentry->d_name.name="call"  ')

    def test_wrong_words(self):
        for arguments, message in (
                (["vfs_write=fil->f_mode"], '"fil" is not known (did you mean file'),
                (["vfs_write=file->f_mod"],
                 'character 7: "struct file" has no member "f_mod" (did you mean f_mode?)'),
                (["vfs_write=(struct fille *)rdi"], 'no type "struct fille" (did you mean'),
                (["vfs_write", "--if", "file->f_mode == FMODE_WRITTEN"], "FMODE_WRITTEN"),
                (["vfs_write+4=file->f_mode"], "at the start of a function"),
                (["vfs_write=*file == 3"], '"struct file" is not a number'),
                (["vfs_write=count->x"], '"size_t" is not a pointer'),
                (["vfs_*=no_such_argument"], "vfs_")):
            with self.subTest(arguments=arguments):
                run = vmscope("flow", *self.target(), *arguments, check=False)
                self.assertEqual((run.status, run.out), (2, ""), run.err)
                self.assertIn(message, run.err)


class X86(Types):
    arch = "x86_64"
    lseek, registers = "__x64_sys_lseek", ("regs->di", "regs->si", "regs->dx")
    zeros = '""'

    def in_registers(self, hit):
        return f".dx={hit['regs->dx']}"

    def test_text_of_a_program(self):
        """What a program writes, by a pointer into its memory."""
        hits = self.shown("vfs_write=buf,count", f'{NAME} == "text" && buf[1] == \'e\'',
                          run="printf 'hello, kernel' >/tmp/text")
        hit, = hits
        self.assertTrue(hit["buf"].startswith('"hello, kernel'), hit)
        self.assertEqual(hit["count"], "13")


class Aarch64(Types):
    arch = "aarch64"
    zeros = r"0x[0-9a-f]+ \(unreadable\)"  # QEMU before 10.1 does not show it to the agent
    lseek, registers = "__arm64_sys_lseek", ("regs->regs[0]", "regs->regs[1]", "regs->regs[2]")

    def in_registers(self, hit):
        return ".regs={" + ", ".join(hit[name] for name in ("regs->regs[0]",))


class ModuleTypes:
    """Where the kernel has symbols of data, by which types of modules are found."""

    def test_module(self):
        """The driver of the port that takes the test's commands is a module, with its own types."""
        hits = self.shown("port_fops_write=((struct port *)filp->private_data)->id,count",
                          'filp->f_path.dentry->d_name.name == "vport0p1"'
                          if self.arch == "x86_64" else "count", run="true")
        self.assertGreater(len(hits), 0)
        for hit in hits:
            port, count = hit.values()
            self.assertEqual(port, "1")
            self.assertGreater(int(count), 0)


class TraceEvents:
    """Where the guest's kernel can trace itself: its events print the same fields of the same calls."""

    def traced_events(self, events, command):
        """Has the kernel print its events while a command runs."""
        switch = "".join(f"echo %d > events/{event}/enable;" for event in events)
        return (f"cd {TRACING} 2>/dev/null && test -e trace || mount -t tracefs t {TRACING};"
                f"cd {TRACING}; echo > trace; {switch.replace('%d', '1')}"
                f"{command}; {switch.replace('%d', '0')} cat trace; cd /")

    def compare(self, event, names, hits):
        """Each event that the kernel has printed is a hit with the same values."""
        printed = [dict(re.findall(r"(\w+)=(\S+)", line)) for line in self.output.splitlines()
                   if f" {event}: " in line]
        self.assertGreater(len(printed), 4)
        truth = collections.Counter(tuple(fields[name] for name in names) for fields in printed)
        found = collections.Counter(tuple(text.strip('"') for text in hit.values())
                                    for hit in hits)
        self.assertFalse(truth - found, found)

    def test_events(self):
        """Processes that are born, and signals that are sent."""
        records = self.records(
            "wake_up_new_task=p->comm,p->pid,p->prio",
            "__send_signal_locked=sig,info->si_code,t->comm,t->pid",
            run=self.traced_events(("sched/sched_wakeup_new", "signal/signal_generate"),
                                   "for i in 1 2 3 4 5; do sleep 1000 & nice -n $i true;"
                                   "while [ $(cat /proc/$!/comm) != sleep ]; do :; done;"
                                   "kill -$((i + 8)) $!; kill -9 $!; done; wait"))
        by_place = collections.defaultdict(list)
        for record in records:
            by_place[record["where"]].append(self.texts(record))
        self.compare("sched_wakeup_new", ("comm", "pid", "prio"), by_place["wake_up_new_task"])
        self.compare("signal_generate", ("sig", "code", "comm", "pid"),
                     by_place["__send_signal_locked"])


class X86Of612(X86, ModuleTypes, TraceEvents, unittest.TestCase):
    @classmethod
    def start_guest(cls):
        return LinuxGuest("6.12")
