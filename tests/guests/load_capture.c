/* SPDX-License-Identifier: MIT */
/*
 * load_capture KERNEL INITRD COMMAND-LINE: loads the kernel that is to run when this one crashes,
 * which `crashkernel=` on the command line has kept memory for. What kexec -p does.
 */
#include <fcntl.h>
#include <linux/kexec.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	int kernel, initrd;

	if (argc != 4)
		return 2;
	kernel = open(argv[1], O_RDONLY);
	initrd = open(argv[2], O_RDONLY);
	if (syscall(SYS_kexec_file_load, kernel, initrd, strlen(argv[3]) + 1, argv[3],
		    KEXEC_FILE_ON_CRASH) < 0) {
		perror("kexec_file_load");
		return 1;
	}
	return 0;
}
