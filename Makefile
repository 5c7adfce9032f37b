# SPDX-License-Identifier: MIT
# A short way to the things people do here; Meson does the building.

BUILD = build
SOURCES = git ls-files -- '*.c' '*.h'

all: | setup
	@[ -e $(BUILD)/build.ninja ] || meson setup $(BUILD)
	@ninja -C $(BUILD)

setup:
	@scripts/setup

check: | setup
	@scripts/check

# What takes hours; one part of it alone: scripts/check-long faults, libvirt, guests, gdb or fuzz.
check-long: all
	@scripts/setup --libvirt --debian-guest --large-pages
	@scripts/check-long

# Compared with gdb, crash and drgn on the kernels' debug symbols (280 MB per kernel to download).
check-gdb: all
	@scripts/setup --debug-symbols
	@for series in 6.1 6.12; do \
		/usr/bin/python3 tests/gdb/compare_gdb.py $$series || exit 1; \
		/usr/bin/python3 tests/gdb/compare_tools.py $$series || exit 1; \
	done

demo: all
	@/usr/bin/python3 scripts/demo

bench: all
	@for bench in attach sample kvm agent report export core calls flow record hostile; do /usr/bin/python3 bench/$$bench.py || exit 1; done

install: all
	@meson install -C $(BUILD) --no-rebuild

format:
	@$(SOURCES) | xargs clang-format -i

clean:
	@rm -rf $(BUILD) $(BUILD)-*

.PHONY: all setup check check-long check-gdb demo bench install format clean
