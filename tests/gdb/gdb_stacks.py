# SPDX-License-Identifier: MIT
"""Runs inside gdb: writes the kernel stacks of a paused machine, by the kernel's debug symbols.

The compiler's call frame information has holes, which gdb fills with guesses that are wrong. Here
they are filled with what the code itself says, and nothing that vmscope relies on:
- assembly, which has no such information: its instructions up to the program counter are decoded,
  and what they push is counted;
- entries from interrupts, exceptions and system calls: struct pt_regs, as the debug information
  declares it, lies where their calls return to;
- calls on the interrupt stack, which are inline assembly: `pop %rsp` after the call leads back.
"""
import json
import re

import gdb
import gdb.unwinder

KERNEL = 1 << 63
# Assembly that nobody called, and that was not entered either.
STARTS = re.compile(r"ret_from_fork(_asm)?|(secondary|common)_startup_64.*")
ENTRIES = re.compile(r"asm_.*|entry_.*|common_interrupt_return|ret_from_.*")
# In the order of struct pt_regs' members, by gdb's names of them.
REGISTERS = {"r15": "r15", "r14": "r14", "r13": "r13", "r12": "r12", "bp": "rbp", "bx": "rbx",
             "r11": "r11", "r10": "r10", "r9": "r9", "r8": "r8", "ax": "rax", "cx": "rcx",
             "dx": "rdx", "si": "rsi", "di": "rdi", "ip": "rip", "sp": "rsp"}


def word(address):
    data = gdb.selected_inferior().read_memory(address, 8)
    return int.from_bytes(bytes(data), "little")


def symbol_at(pc):
    """Name and begin of the code at `pc`, by the symbol table: (None, None) where unknown."""
    match = re.match(r"(\S+)(?: \+ (\d+))? in section",
                     gdb.execute(f"info symbol {pc:#x}", to_string=True))
    return (match[1], pc - int(match[2] or 0)) if match else (None, None)


def is_compiled(pc):
    """Has the compiler described the function?"""
    block = gdb.block_for_pc(pc)
    while block and not block.function:
        block = block.superblock
    return block is not None


class FrameId:
    def __init__(self, sp, pc):
        self.sp = gdb.Value(sp)
        self.pc = gdb.Value(pc)


class Unwinder(gdb.unwinder.Unwinder):
    leaf_sp = None  # of the selected thread's innermost frame
    on_old_stack = set()  # frames that have come back from the interrupt stack already

    def __init__(self):
        super().__init__("kernel")

    def __call__(self, frame):
        pc = int(frame.read_register("rip")) % (1 << 64)
        sp = int(frame.read_register("rsp")) % (1 << 64)
        if pc < KERNEL:
            return None
        try:
            if is_compiled(pc):
                return self.leave_interrupt_stack(frame, pc, sp)
            return self.leave_assembly(frame, pc, sp)
        except gdb.MemoryError:
            return None

    @staticmethod
    def caller(frame, pc, sp, values):
        info = frame.create_unwind_info(FrameId(sp, pc))
        kept = {name: frame.read_register(name) for name in REGISTERS.values()}
        for name, old in kept.items():
            value = values.get(name)
            info.add_saved_register(name, old if value is None else
                                    gdb.Value(value).cast(old.type))
        return info

    def leave_interrupt_stack(self, frame, pc, sp):
        """The same function once more, with the stack pointer that it will have."""
        if sp == self.leaf_sp or (pc, sp) in self.on_old_stack:
            return None
        for insn in frame.architecture().disassemble(pc, count=6):
            if re.fullmatch(r"pop\s+%rsp", insn["asm"].strip()):
                self.on_old_stack.add((pc, word(sp)))
                return self.caller(frame, pc, sp, {"rip": pc, "rsp": word(sp)})
            if re.match(r"(j|ret|pop|push|lea\s.*%rsp)", insn["asm"]):
                return None
        return None

    def leave_assembly(self, frame, pc, sp):
        name, begin = symbol_at(pc)
        if name is None or STARTS.fullmatch(name):
            return None
        if ENTRIES.fullmatch(name):
            regs = gdb.Value(sp).cast(gdb.lookup_type("struct pt_regs").pointer()).dereference()
            return self.caller(frame, pc, sp,
                               {ours: int(regs[member]) % (1 << 64)
                                for member, ours in REGISTERS.items()})
        pushed = self.pushed(frame, begin, pc)
        return self.caller(frame, pc, sp + pushed,
                           {"rip": word(sp + pushed), "rsp": sp + pushed + 8})

    @staticmethod
    def pushed(frame, begin, pc):
        """Bytes that straight code from `begin` to `pc` has pushed."""
        pushed = 0
        if begin == pc:
            return 0
        for insn in frame.architecture().disassemble(begin, pc - 1):
            text = insn["asm"]
            if re.match(r"push", text):
                pushed += 8
            elif re.match(r"pop", text):
                pushed -= 8
            elif match := re.match(r"(add|sub)\s+\$(-?0x[0-9a-f]+),%rsp", text):
                pushed += int(match[2], 16) * (1 if match[1] == "sub" else -1)
            elif match := re.match(r"call\s+0x([0-9a-f]+)", text):
                if begin <= int(match[1], 16) <= pc:
                    pushed += 8
        return pushed


def stack():
    """Program counters of the selected thread, inlined functions aside: with names."""
    frames = []
    frame = gdb.newest_frame()
    Unwinder.on_old_stack.clear()
    Unwinder.leaf_sp = int(frame.read_register("rsp")) % (1 << 64)
    while frame is not None and len(frames) < 200:
        pc = frame.pc()
        if pc < KERNEL:
            break
        if frame.type() == gdb.NORMAL_FRAME and not (frames and frames[-1][0] == pc):
            frames.append((pc, symbol_at(pc - (1 if frames else 0))[0], is_compiled(pc)))
        if frames and not frames[-1][2] and STARTS.fullmatch(frames[-1][1] or ""):
            break
        try:
            frame = frame.older()
        except gdb.error:
            break
    return frames


class Stacks(gdb.Command):
    """vmscope-stacks KIND PATH FILE: writes the stacks of all threads of a target as JSON.

    KIND and PATH are gdb's: `remote` and a socket, `core` and a file.
    """

    def __init__(self):
        super().__init__("vmscope-stacks", gdb.COMMAND_USER)

    def invoke(self, argument, from_tty):
        kind, path, file = gdb.string_to_argv(argument)
        gdb.execute(f"target {kind} {path}", to_string=True)
        stacks = []
        for thread in sorted(gdb.selected_inferior().threads(), key=lambda thread: thread.num):
            thread.switch()
            stacks.append(stack())
        gdb.execute("disconnect" if kind == "remote" else "detach", to_string=True)
        with open(file, "w") as out:
            json.dump(stacks, out)


gdb.unwinder.register_unwinder(None, Unwinder(), replace=True)
Stacks()
