# SPDX-License-Identifier: MIT
"""What of libvmscope's headers the module uses, as ctypes. A test compares it with what a compiler
makes of the headers (tests/integration/test_library.py)."""
import ctypes
from ctypes import (POINTER, Structure, c_bool, c_char, c_char_p, c_int, c_size_t, c_uint,
                    c_uint32, c_uint64, c_void_p)

# VMS_…: as in the headers.
ALL_VCPUS = -1
REGS_MAX = 128
STACK_LIMIT = 1024
STACK_DEFAULT = 128
COMM_SIZE = 16
SAMPLE_LEAF_FIRST = 1
PROFILE_BY_ADDRESS = 1
PROFILE_MERGE_VCPUS = 2
# VMS_ERROR_…, from 0 on.
ERRORS = ("INVALID_ARGUMENT", "INVALID_STATE", "NOT_FOUND", "EXISTS", "PERMISSION", "BUSY",
          "PROTOCOL", "TIMEOUT", "CLOSED", "UNSUPPORTED", "UNREADABLE", "MALFORMED", "IO",
          "CANCELLED", "NOT_NOW", "WATCHED", "WAITING", "GONE_ON", "BUDGET")


class GError(Structure):
    name_in_c = "GError"
    _fields_ = [("domain", c_uint32), ("code", c_int), ("message", c_char_p)]


class GArray(Structure):
    _fields_ = [("data", c_void_p), ("len", c_uint)]

    def values(self, kind):
        """Copies of the elements, which are structs."""
        data = (kind * self.len).from_address(self.data) if self.len else []
        return [kind.from_buffer_copy(value) for value in data]


class FoundMachine(Structure):
    name_in_c = "vms_found_machine"
    _fields_ = [("pid", c_int), ("name", c_char_p), ("accelerator", c_char_p), ("vcpus", c_uint),
                ("memory", c_uint64), ("qmp", c_char_p), ("agent", c_char_p),
                ("obstacle", c_char_p), ("uuid", c_char_p)]


class MachineInfo(Structure):
    name_in_c = "vms_machine_info"
    _fields_ = [("name", c_char_p), ("engine", c_char_p), ("description", c_char_p),
                ("accelerator", c_char_p), ("agent", c_char_p), ("pid", c_int), ("is_core", c_bool)]


class Regs(Structure):
    name_in_c = "vms_regs"
    _fields_ = [("value", c_uint64 * REGS_MAX), ("valid", c_uint64 * (REGS_MAX // 64))]


class Symbol(Structure):
    name_in_c = "vms_symbol"
    _fields_ = [("name", c_char_p), ("va", c_uint64), ("size", c_uint64), ("type", c_char)]


class Location(Structure):
    name_in_c = "vms_location"
    _fields_ = [("symbol", c_char_p), ("module", c_char_p), ("offset", c_uint64),
                ("start", c_uint64), ("size", c_uint64), ("part", c_uint64), ("source", c_char_p),
                ("line", c_uint)]


class Task(Structure):
    name_in_c = "vms_task"
    _fields_ = [("va", c_uint64), ("mm", c_uint64), ("tid", c_uint32), ("pid", c_uint32),
                ("ppid", c_uint32), ("state", c_char), ("comm", c_char * COMM_SIZE),
                ("process_comm", c_char * COMM_SIZE), ("is_idle", c_bool)]


class Frame(Structure):
    name_in_c = "vms_frame"
    _fields_ = [("pc", c_uint64), ("is_return", c_bool), ("is_user", c_bool), ("code", c_uint32),
                ("sp", c_uint64)]


class Stack(Structure):
    name_in_c = "vms_stack"
    _fields_ = [("n", c_uint), ("n_kernel", c_uint), ("kernel_end", c_uint), ("end", c_uint),
                ("frame", Frame * STACK_LIMIT)]


class Label(Structure):
    name_in_c = "vms_label"
    _fields_ = [("kind", c_uint), ("is_user", c_bool), ("name", c_char_p), ("module", c_char_p),
                ("source", c_char_p), ("line", c_uint), ("va", c_uint64), ("offset", c_uint64),
                ("container", c_char_p)]


class ProfileFunction(Structure):
    name_in_c = "vms_profile_function"
    _fields_ = [("label", c_uint32), ("self", c_uint64), ("total", c_uint64)]


# Called by vms_guest_lookup.
EACH_SYMBOL = ctypes.CFUNCTYPE(None, POINTER(Symbol), c_char_p, c_void_p)

_ERROR = POINTER(POINTER(GError))
# Of each function what it returns, and its arguments.
FUNCTIONS = {
    "vms_error_quark": (c_uint32,),
    "vms_machine_open_pid": (c_void_p, c_int, _ERROR),
    "vms_machine_open_qmp": (c_void_p, c_char_p, _ERROR),
    "vms_machine_open_agent": (c_void_p, c_char_p, _ERROR),
    "vms_machine_open_gdb": (c_void_p, c_char_p, _ERROR),
    "vms_machine_open_core": (c_void_p, c_char_p, _ERROR),
    "vms_machine_unref": (None, c_void_p),
    "vms_machine_discover": (POINTER(GArray), _ERROR),
    "vms_machine_info": (POINTER(MachineInfo), c_void_p),
    "vms_machine_vcpus": (c_uint, c_void_p),
    "vms_machine_allow_stop": (None, c_void_p, c_bool),
    "vms_machine_hold": (c_bool, c_void_p, c_int, _ERROR),
    "vms_machine_release": (c_bool, c_void_p, c_int, _ERROR),
    "vms_machine_regs": (c_bool, c_void_p, c_uint, POINTER(Regs), _ERROR),
    "vms_machine_read_phys": (c_bool, c_void_p, c_uint64, c_void_p, c_size_t),
    "vms_memory_new": (c_void_p, c_void_p, POINTER(Regs)),
    "vms_memory_free": (None, c_void_p),
    "vms_memory_read": (c_bool, c_void_p, c_uint64, c_void_p, c_size_t),
    "vms_guest_detect": (c_void_p, c_void_p, _ERROR),
    "vms_guest_unref": (None, c_void_p),
    "vms_guest_why": (c_char_p, c_void_p),
    "vms_guest_lookup": (c_size_t, c_void_p, c_char_p, EACH_SYMBOL, c_void_p),
    "vms_guest_locate": (c_bool, c_void_p, c_void_p, c_uint64, POINTER(Location)),
    "vms_guest_tasks": (POINTER(GArray), c_void_p, _ERROR, _ERROR),
    "vms_guest_task_regs": (c_bool, c_void_p, POINTER(Task), POINTER(Regs), _ERROR),
    "vms_walk": (None, c_void_p, c_void_p, POINTER(Regs), c_uint, POINTER(Stack)),
    "vms_sample_report_new": (c_void_p, c_void_p, c_void_p, c_uint64, c_uint, _ERROR),
    "vms_sample_report_unref": (None, c_void_p),
    "vms_sample_report_start": (c_bool, c_void_p, c_uint64, c_void_p, c_void_p, _ERROR),
    "vms_sample_report_stop": (c_bool, c_void_p, _ERROR),
    "vms_sample_report_wait": (c_bool, c_void_p, c_uint64),
    "vms_sample_report_profile": (c_void_p, c_void_p, c_uint, _ERROR),
    "vms_profile_free": (None, c_void_p),
    "vms_profile_label": (POINTER(Label), c_void_p, c_uint32),
    "vms_profile_functions": (POINTER(ProfileFunction), c_void_p, POINTER(c_size_t)),
}

vms = ctypes.CDLL("libvmscope.so.0")
for _name, (_result, *_arguments) in FUNCTIONS.items():
    _function = getattr(vms, _name)
    _function.restype, _function.argtypes = _result, _arguments

glib = ctypes.CDLL("libglib-2.0.so.0")
glib.g_error_free.argtypes = [c_void_p]
glib.g_array_unref.argtypes = [c_void_p]
