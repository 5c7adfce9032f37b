# SPDX-License-Identifier: MIT
"""Looks into running virtual machines from outside: libvmscope for Python.

    with vmscope.Machine.open_pid(1234) as machine, machine.detect_guest() as guest:
        for task in guest.tasks():
            print(task.tid, task.comm)

Every object is a context manager, and is closed at the latest when Python forgets it. What the
library reports as an error is raised as vmscope.Error with the library's words. Threads may use
different objects at once; what they may do with one object, the library's headers say.
"""
import collections
import contextlib
import ctypes
import enum
import time
import weakref

from vmscope import _library
from vmscope._library import ALL_VCPUS, glib, vms

_WAIT_NS = 100_000_000  # Python handles signals in between

ErrorCode = enum.IntEnum("ErrorCode", _library.ERRORS, start=0)

FoundMachine = collections.namedtuple(
    "FoundMachine", "pid name accelerator vcpus memory qmp agent obstacle uuid")
MachineInfo = collections.namedtuple(
    "MachineInfo", "name engine description accelerator agent pid is_core")
Symbol = collections.namedtuple("Symbol", "name va size type module")
Location = collections.namedtuple("Location", "symbol module offset start size part source line")
Frame = collections.namedtuple("Frame", "pc is_return is_user sp")
Function = collections.namedtuple("Function", "name module is_user self total")


class Error(Exception):
    """What the library could not do, and why. `code` is an ErrorCode; None: an error of GLib."""

    def __init__(self, code, message):
        super().__init__(message)
        self.code = code


def _call(function, *arguments):
    """Calls a function whose last argument is a GError **."""
    error = ctypes.POINTER(_library.GError)()
    result = function(*arguments, ctypes.byref(error))
    if error:
        is_ours = error.contents.domain == vms.vms_error_quark()
        code = ErrorCode(error.contents.code) if is_ours else None
        message = _text(error.contents.message)
        glib.g_error_free(error)
        raise Error(code, message)
    return result


def _text(value):
    """Bytes of the library as text: names in a guest may be anything."""
    return value.decode(errors="replace") if isinstance(value, bytes) else value


def _tuple(kind, struct):
    return kind(*(_text(getattr(struct, name)) for name in kind._fields))


def _path(path):
    return str(path).encode(errors="surrogateescape")


class _Object:
    """Owns an object of the library."""

    def __init__(self, free, pointer):
        self._pointer = pointer
        self.close = weakref.finalize(self, free, pointer)

    @property
    def _as_parameter_(self):
        if not self.close.alive:
            raise ValueError(f"this {type(self).__name__} is closed")
        return ctypes.c_void_p(self._pointer)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def discover():
    """The virtual machines of this host: a list of FoundMachine."""
    array = _call(vms.vms_machine_discover)
    try:
        return [_tuple(FoundMachine, found)
                for found in array.contents.values(_library.FoundMachine)]
    finally:
        glib.g_array_unref(array)


class Machine(_Object):
    """A running machine or a core file."""

    def __init__(self, pointer):
        super().__init__(vms.vms_machine_unref, pointer)

    @classmethod
    def open_pid(cls, pid):
        return cls(_call(vms.vms_machine_open_pid, pid))

    @classmethod
    def open_qmp(cls, address):
        return cls(_call(vms.vms_machine_open_qmp, _path(address)))

    @classmethod
    def open_agent(cls, path):
        return cls(_call(vms.vms_machine_open_agent, _path(path)))

    @classmethod
    def open_gdb(cls, address):
        return cls(_call(vms.vms_machine_open_gdb, _path(address)))

    @classmethod
    def open_core(cls, path):
        return cls(_call(vms.vms_machine_open_core, _path(path)))

    @property
    def info(self):
        return _tuple(MachineInfo, vms.vms_machine_info(self).contents)

    @property
    def vcpus(self):
        return vms.vms_machine_vcpus(self)

    def allow_stop(self, allow=True):
        vms.vms_machine_allow_stop(self, allow)

    @contextlib.contextmanager
    def hold(self, vcpu=ALL_VCPUS):
        """Holds a vCPU, or all, for the time of a with statement."""
        _call(vms.vms_machine_hold, self, vcpu)
        try:
            yield
        except BaseException:
            with contextlib.suppress(Error):  # the first one tells more
                _call(vms.vms_machine_release, self, vcpu)
            raise
        _call(vms.vms_machine_release, self, vcpu)

    def regs(self, vcpu):
        """Registers of a held vCPU, for Memory and Guest.walk."""
        regs = _library.Regs()
        _call(vms.vms_machine_regs, self, vcpu, regs)
        return regs

    def read_phys(self, pa, size):
        """Bytes of guest-physical memory; None where any of them cannot be read."""
        buffer = ctypes.create_string_buffer(size)
        return buffer.raw if vms.vms_machine_read_phys(self, pa, buffer, size) else None

    def detect_guest(self):
        return Guest(_call(vms.vms_guest_detect, self), self)


class Memory(_Object):
    """Virtual memory, by the page tables that registers point to."""

    def __init__(self, machine, regs):
        super().__init__(vms.vms_memory_free, vms.vms_memory_new(machine, regs))

    def read(self, va, size):
        """Bytes of memory; None where any of them cannot be read."""
        buffer = ctypes.create_string_buffer(size)
        return buffer.raw if vms.vms_memory_read(self, va, buffer, size) else None


class Task:
    """A thread of a guest: va, mm, tid, pid, ppid, state, comm, process_comm, is_idle."""

    def __init__(self, struct):
        self._struct = struct

    def __getattr__(self, name):
        return _text(getattr(self._struct, name))


class Guest(_Object):
    """What runs in a machine."""

    def __init__(self, pointer, machine):
        super().__init__(vms.vms_guest_unref, pointer)
        self.machine = machine

    @property
    def why(self):
        """Why no operating system was recognised, or what of it was not understood; or None."""
        return _text(vms.vms_guest_why(self))

    def lookup(self, name):
        """All symbols of a name."""
        found = []

        @_library.EACH_SYMBOL
        def each(symbol, module, _):
            struct = symbol.contents
            found.append(Symbol(_text(struct.name), struct.va, struct.size, _text(struct.type),
                                _text(module)))
        vms.vms_guest_lookup(self, name.encode(), each, None)
        return found

    def locate(self, va):
        """What a kernel address is called: a Location, or None."""
        location = _library.Location()
        found = vms.vms_guest_locate(self, None, va, location)
        return _tuple(Location, location) if found else None

    def tasks(self):
        """Every thread of the guest."""
        array = _call(vms.vms_guest_tasks, self, None)
        try:
            return [Task(struct) for struct in array.contents.values(_library.Task)]
        finally:
            glib.g_array_unref(array)

    def task_regs(self, task):
        """Registers for the stack of a task that does not run."""
        regs = _library.Regs()
        _call(vms.vms_guest_task_regs, self, task._struct, regs)
        return regs

    def walk(self, memory, regs, depth=_library.STACK_DEFAULT):
        """The stack that registers begin: a list of Frame, the leaf first."""
        stack = _library.Stack()
        vms.vms_walk(self, memory, regs, depth, stack)
        return [_tuple(Frame, frame) for frame in stack.frame[:stack.n]]


class SampleReport(_Object):
    """Where a guest spends its time."""

    def __init__(self, machine, guest=None, interval_us=10000, leaf_first=False):
        flags = _library.SAMPLE_LEAF_FIRST if leaf_first else 0
        super().__init__(vms.vms_sample_report_unref,
                         _call(vms.vms_sample_report_new, machine, guest, interval_us, flags))

    def start(self, duration_ns=0):
        """Begins to sample, until stop() where no duration is given."""
        _call(vms.vms_sample_report_start, self, duration_ns, None, None)

    def stop(self):
        _call(vms.vms_sample_report_stop, self)

    def wait(self):
        """Waits for the end."""
        while not vms.vms_sample_report_wait(self, time.monotonic_ns() + _WAIT_NS):
            pass

    def profile(self, by_address=False, merge_vcpus=True):
        flags = ((_library.PROFILE_BY_ADDRESS if by_address else 0) |
                 (_library.PROFILE_MERGE_VCPUS if merge_vcpus else 0))
        return Profile(_call(vms.vms_sample_report_profile, self, flags))


class Profile(_Object):
    """Sampled trees with names. Needs neither the machine nor its guest any more."""

    def __init__(self, pointer):
        super().__init__(vms.vms_profile_free, pointer)

    def functions(self):
        """Functions by the samples that they have themselves, highest first."""
        n = ctypes.c_size_t()
        functions = vms.vms_profile_functions(self, n)
        return [self._function(function) for function in functions[:n.value]]

    def _function(self, function):
        label = vms.vms_profile_label(self, function.label).contents
        return Function(_text(label.name), _text(label.module), label.is_user, function.self,
                        function.total)
