/* SPDX-License-Identifier: MIT */
/*
 * A program that makes code at run time, as Node and Java do: it copies a loop to new memory,
 * writes /tmp/perf-PID.map, and executes the copy. Lines of the map are replaced by later ones.
 */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define CODE_SIZE 256

static volatile unsigned long count;

static void spin(volatile unsigned long *counter)
{
	for (;;)
		++*counter;
}

int main(void)
{
	char path[64];
	unsigned char *code = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
				   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (code == MAP_FAILED)
		return 1;
	memcpy(code, (const void *)spin, CODE_SIZE);
	__builtin___clear_cache((char *)code, (char *)code + CODE_SIZE);
	snprintf(path, sizeof(path), "/tmp/perf-%d.map", (int)getpid());
	FILE *map = fopen(path, "w");
	if (!map)
		return 1;
	fprintf(map, "%lx %x JS:^replaced /app/old.js:1:1\n", (unsigned long)code - 16, 64);
	fprintf(map, "0x%lx 0x%x JS:*hot loop /app/main.js:10:5\n", (unsigned long)code, CODE_SIZE);
	fprintf(map, "%lx %x Builtin:Behind\n", (unsigned long)code + CODE_SIZE, 64);
	fclose(map);
	((void (*)(volatile unsigned long *))code)(&count);
}
