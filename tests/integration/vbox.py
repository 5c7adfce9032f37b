# SPDX-License-Identifier: MIT
"""VirtualBox's core files, read and written: an implementation of the format that knows nothing of
vmscope's, so that each can be held against the other.

The layouts are those of VirtualBox's published headers: dbgfcorefmt.h with format versions 5 and 6,
and before that, in 2010, CPUMCTX as it was (cpumctx.h of version 4.1) in notes of other names.
"""
import collections
import os
import struct

MAGIC = 0xC01AC0DE
NT_CORE, NT_CPU = 0xB00, 0xB01
VERSIONS = {5: 0x00010005, 6: 0x00010006}
ET_CORE, EM_X86_64, PT_LOAD, PT_NOTE, PF_R = 4, 62, 1, 4, 4
EHDR = struct.Struct("<4sBBBBB7xHHIQQQIHHHHHH")
PHDR = struct.Struct("<IIQQQQQQ")
NHDR = struct.Struct("<III")

Range = collections.namedtuple("Range", "pa size data")  # data is None for MMIO
Load = collections.namedtuple("Load", "pa va memsz filesz offset align flags")
Core = collections.namedtuple("Core", "ident_version version n_cpus cpus loads")


def _selectors(names, at, hidden):
    """Selector registers one after the other; `hidden`: names of base, limit, attributes, sel."""
    return {hidden.format(name, part): (at + 24 * index + offset, code)
            for index, name in enumerate(names)
            for part, offset, code in (("base", 0, "Q"), ("limit", 8, "I"), ("attr", 12, "I"))} | {
                name: (at + 24 * index + 16, "H") for index, name in enumerate(names)}


def _words(at, names):
    return {name: (at + 8 * index, "Q") for index, name in enumerate(names) if name}


def _record(tsc_aux):
    """Offsets and types of the CPU record of version 6, or 5, which has no TSC_AUX."""
    fields = _words(0x00, ("rax rbx rcx rdx rsi rdi r8 r9 r10 r11 r12 r13 r14 r15 rip rsp rbp "
                           "eflags").split())
    fields |= _selectors("cs ds es fs gs ss".split(), 0x90, "{}_{}")
    fields |= _words(0x120, "cr0 cr2 cr3 cr4".split())
    fields |= _words(0x140, ["dr0", "dr1", "dr2", "dr3", None, None, "dr6", "dr7"])
    for index, name in enumerate(("gdtr", "idtr")):
        fields |= {f"{name}_base": (0x180 + 16 * index, "Q"),
                   f"{name}_limit": (0x188 + 16 * index, "I")}
    fields |= _selectors(("ldtr", "tr"), 0x1A0, "{}_{}")
    fields |= _words(0x1D0, "sysenter_cs sysenter_eip sysenter_esp efer star pat lstar cstar "
                            "sfmask k_gs_base apic_base".split())
    fields |= _words(0x228, ["tsc_aux", "xcr0"] if tsc_aux else ["xcr0"])
    return fields


def _context():
    """The same for CPUMCTX, which begins with the 512 bytes of FXSAVE."""
    fields = _words(512, "rdi rsi rbp rax rbx rdx rcx rsp".split())
    fields |= {"ss": (580, "H"), "gs": (584, "H"), "fs": (588, "H"), "es": (592, "H"),
               "ds": (596, "H"), "cs": (600, "H")}
    fields |= _words(608, "eflags rip r8 r9 r10 r11 r12 r13 r14 r15".split())

    def hidden(at, name):
        return {f"{name}_base": (at, "Q"), f"{name}_limit": (at + 8, "I"),
                f"{name}_attr": (at + 12, "I")}
    for index, name in enumerate("es cs ss ds fs gs".split()):
        fields |= hidden(688 + 16 * index, name)
    fields |= _words(784, ["cr0", "cr2", "cr3", "cr4", "dr0", "dr1", "dr2", "dr3", None, None, "dr6",
                           "dr7"])
    fields |= {"gdtr_limit": (880, "H"), "gdtr_base": (882, "Q"),
               "idtr_limit": (892, "H"), "idtr_base": (894, "Q"),
               "ldtr": (904, "H"), "tr": (908, "H")}
    fields |= _words(912, "sysenter_cs sysenter_eip sysenter_esp efer star pat lstar cstar sfmask "
                          "k_gs_base".split())
    return fields | hidden(992, "ldtr") | hidden(1008, "tr")


# By format version, 2010 for what had none: the CPU's fields, its size, the notes' names.
LAYOUTS = {6: (_record(True), 8776, (b"VBCORE", b"VBCPU")),
           5: (_record(False), 8768, (b"VBCORE", b"VBCPU")),
           2010: (_context(), 1024, (b"VBOXCORE", b"VBOXCPU"))}


def _padded(data, alignment):
    return data + bytes(-len(data) % alignment)


def _note(version, name, kind, content):
    if version == 2010:  # the length counts the NUL; aligned to 4
        return (NHDR.pack(len(name) + 1, len(_padded(content, 4)), kind) +
                _padded(name + b"\0", 4) + _padded(content, 4))
    content = _padded(content, 8)
    return NHDR.pack(len(name), len(content), kind) + _padded(name + b"\0", 8) + content


def _descriptor(version, n_cpus):
    vbox = (7 << 24) | (0 << 16) | 18 if version != 2010 else (4 << 24)
    if version == 2010:
        return struct.pack("<IIII", MAGIC, vbox, 70000, n_cpus)
    return struct.pack("<IIIIII", MAGIC, VERSIONS[version], 24, vbox, 162988, n_cpus)


def _write_sparse(file, data, chunk=1 << 20):
    """Zeros become holes: a test that writes gigabytes is no good neighbour."""
    data = memoryview(data)
    zeros = bytes(chunk)
    for at in range(0, len(data), chunk):
        part = data[at:at + chunk]
        if part == zeros[:len(part)]:
            file.seek(len(part), os.SEEK_CUR)
        else:
            file.write(part)
    file.truncate()


def write(path, cpus, ranges, version=6):
    """Writes a file as VirtualBox does: cpus are dicts of registers, ranges Range tuples."""
    fields, size, (core_name, cpu_name) = LAYOUTS[version]
    notes = _note(version, core_name, NT_CORE, _descriptor(version, len(cpus)))
    for cpu in cpus:
        record = bytearray(size)
        for name, (offset, code) in fields.items():
            struct.pack_into("<" + code, record, offset, cpu.get(name, 0))
        notes += _note(version, cpu_name, NT_CPU, bytes(record))
    notes_at = EHDR.size + PHDR.size * (1 + len(ranges))
    headers = PHDR.pack(PT_NOTE, PF_R, notes_at, 0, 0, len(notes), len(notes), 0)
    offset = notes_at + len(notes)
    for pa, length, data in ranges:
        filesz = 0 if data is None else length
        headers += PHDR.pack(PT_LOAD, PF_R, offset, 0, pa, filesz, length, 0)
        offset += filesz
    with open(path, "wb") as file:
        # The version in e_ident is 0 in VirtualBox's own files.
        file.write(EHDR.pack(b"\x7fELF", 2, 1, 0, 0, 0, ET_CORE, EM_X86_64, 1, 0, EHDR.size, 0, 0,
                             EHDR.size, PHDR.size, 1 + len(ranges), 0, 0, 0))
        file.write(headers + notes)
        for _, _, data in ranges:
            _write_sparse(file, data or b"")


def _read_notes(data):
    """(name, type, content) of every note; names are padded to 8 bytes with their NUL."""
    at = 0
    while at < len(data):
        namesz, descsz, kind = NHDR.unpack_from(data, at)
        at += NHDR.size
        name = data[at:at + namesz]
        assert namesz == len(name.rstrip(b"\0")), "the length of a name counts no NUL"
        at += (namesz + 1 + 7) // 8 * 8
        assert descsz % 8 == 0, "the size of a note is rounded up to 8"
        assert at + descsz <= len(data), "a note ends within the segment"
        yield name, kind, data[at:at + descsz]
        at += descsz


def read(path):
    """A file of version 5 or 6, checked strictly."""
    with open(path, "rb") as file:
        (magic, bits, order, ident_version, _, _, kind, machine, version, _, phoff, _, _, _,
         phentsize, phnum, _, shnum, _) = EHDR.unpack(file.read(EHDR.size))
        assert (magic, bits, order, kind, machine, version) == (
            b"\x7fELF", 2, 1, ET_CORE, EM_X86_64, 1)
        assert (phoff, phentsize, shnum) == (EHDR.size, PHDR.size, 0)
        headers = list(PHDR.iter_unpack(file.read(PHDR.size * phnum)))
        assert [header[0] for header in headers] == [PT_NOTE] + [PT_LOAD] * (phnum - 1)
        file.seek(headers[0][2])
        notes = list(_read_notes(file.read(headers[0][5])))
    name, kind, content = notes[0]
    assert (name, kind) == (b"VBCORE", NT_CORE)
    magic, version, self_size, _, _, n_cpus = struct.unpack("<IIIIII", content)
    assert (magic, self_size) == (MAGIC, 24)
    version = {number: key for key, number in VERSIONS.items()}[version]
    fields, size, _ = LAYOUTS[version]
    cpus = []
    # Whatever somebody else has to add comes last.
    assert {note[0] for note in notes[1 + n_cpus:]} <= {b"VMSCOPE"}
    for name, kind, content in notes[1:1 + n_cpus]:
        assert (name, kind, len(content)) == (b"VBCPU", NT_CPU, size)
        cpus.append({register: struct.unpack_from("<" + code, content, offset)[0]
                     for register, (offset, code) in fields.items()})
    loads = [Load(pa, va, memsz, filesz, offset, align, flags)
             for _, flags, offset, va, pa, filesz, memsz, align in headers[1:]]
    return Core(ident_version, version, n_cpus, cpus, loads)
