#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Is a flame graph well-formed, does its drawing say what its data say, and do frames nest?"""
import json
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

SVG = "{http://www.w3.org/2000/svg}"
NAMES = ['do_syscall_64', 'a<b>&"c"\'d\'\\', ']]></script>', 'café', 'operator;new', 'ksys_read',
         'vfs_read', 'x?y?[0m', 'sh <&> (7)', '[idle]', '[implausible frame]', 'all', 'vCPU 0', 'vCPU 1']


class Frame:
    """One of the data's frames, placed by adding up its elder siblings."""

    def __init__(self, depth, name, total):
        self.depth, self.name, self.total = depth, name, total
        self.start = self.used = 0
        self.parent = None


def frames_of(data):
    flat, path, frames = data["nodes"], [], []
    for depth, label, total in zip(flat[::3], flat[1::3], flat[2::3]):
        frame = Frame(depth, data["labels"][label][0], total)
        del path[depth:]
        assert len(path) == depth, "a frame without its parent"
        if path:
            frame.parent = path[-1]
            frame.start = frame.parent.start + frame.parent.used
            frame.parent.used += total
            assert frame.parent.used <= frame.parent.total, "children larger than their parent"
        path.append(frame)
        frames.append(frame)
    return frames


def check(text, leaf_first):
    root = ElementTree.fromstring(text)
    data = json.loads(root.find(f"{SVG}script[@id='data']").text)
    frames = frames_of(data)
    assert data["leafFirst"] == leaf_first
    assert frames[0].name == "all" and frames[0].total > 0
    missing = set(NAMES) - {frame.name for frame in frames}
    assert not missing, f"names that did not survive: {missing}"

    drawn = root.findall(f"{SVG}g[@id='frames']/{SVG}g")
    scale = 1180 / frames[0].total
    visible = [frame for frame in frames if frame.total * scale >= 0.1]
    assert len(drawn) == len(visible)
    deepest = max(frame.depth for frame in frames)
    height = float(root.get("height"))
    for group, frame in zip(drawn, visible):
        rect, title = group.find(f"{SVG}rect"), group.find(f"{SVG}title").text
        row = frame.depth if leaf_first else deepest - frame.depth
        samples = f"{frame.total} sample" + "s" * (frame.total != 1)
        assert title.startswith(f"{frame.name} ({samples}, "), title
        assert abs(float(rect.get("x")) - 10 - frame.start * scale) < 0.01
        assert abs(float(rect.get("width")) - frame.total * scale) < 0.01
        assert float(rect.get("y")) == 70 + 18 * row < height - 58
        shown = group.find(f"{SVG}text").text or ""
        assert len(shown) * 7.25 <= float(rect.get("width"))
        assert frame.name.startswith(shown.rstrip("…"))


for leaf_first in False, True:
    command = sys.argv[1:] + (["leaf-first"] if leaf_first else [])
    check(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout, leaf_first)
