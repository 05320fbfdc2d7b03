/*
 * The start of the shim and its system calls, by hand for the processors that are listed here. On
 * others the C library does both, and a start takes a little longer.
 */
#include "bare.h"

#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

/* -- the processor ----------------------------------------------------------------------------- */

#if defined(__x86_64__)

__asm__(".globl _start\n"
        ".type _start, @function\n"
        "_start:\n"
        "    xor %ebp, %ebp\n"
        "    mov %rsp, %rdi\n"
        "    and $-16, %rsp\n"
        "    call bare_start\n");

/* Six arguments at most, as mmap has; the sixth is always 0. */
long bare_call(long number, long a, long b, long c, long d, long e)
{
    register long fourth __asm__("r10") = d;
    register long fifth __asm__("r8") = e;
    register long sixth __asm__("r9") = 0;
    long result;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(fourth), "r"(fifth), "r"(sixth)
                     : "rcx", "r11", "memory");
    return result;
}

#elif defined(__aarch64__)

__asm__(".globl _start\n"
        ".type _start, %function\n"
        "_start:\n"
        "    mov x29, #0\n"
        "    mov x30, #0\n"
        "    mov x0, sp\n"
        "    bl bare_start\n");

long bare_call(long number, long a, long b, long c, long d, long e)
{
    register long call __asm__("x8") = number;
    register long first __asm__("x0") = a;
    register long second __asm__("x1") = b;
    register long third __asm__("x2") = c;
    register long fourth __asm__("x3") = d;
    register long fifth __asm__("x4") = e;
    register long sixth __asm__("x5") = 0;
    __asm__ volatile("svc #0"
                     : "+r"(first)
                     : "r"(call), "r"(second), "r"(third), "r"(fourth), "r"(fifth), "r"(sixth)
                     : "memory");
    return first;
}

#else
#define BARE_HAS_LIBRARY

long bare_call(long number, long a, long b, long c, long d, long e)
{
    long result = syscall(number, a, b, c, d, e, 0L);
    return result < 0 ? -errno : result;
}

int main(int argc, char **argv)
{
    return shim_main(argc, argv, environ);
}

#endif

#ifndef BARE_HAS_LIBRARY
/* The kernel leaves on the stack: how many words, the words, NULL, the environment, NULL. */
__attribute__((noreturn, used)) static void bare_start(long *stack)
{
    int count = (int)stack[0];
    char **words = (char **)(stack + 1);
    int code = shim_main(count, words, words + count + 1);
    for (;;)
        BARE_CALL(SYS_exit_group, code, 0, 0, 0, 0);
}
#endif

/* -- text -------------------------------------------------------------------------------------- */

/* What running a command, or asking for limits, fails with. */
static const struct {
    int errnum;
    const char *words;
} causes[] = {
    {ENOENT, "No such file or directory"},
    {EACCES, "Permission denied"},
    {EPERM, "Operation not permitted"},
    {ENOEXEC, "Exec format error"},
    {ENOTDIR, "Not a directory"},
    {ELOOP, "Too many levels of symbolic links"},
    {ENAMETOOLONG, "File name too long"},
    {E2BIG, "Argument list too long"},
    {ENOMEM, "Cannot allocate memory"},
    {ETXTBSY, "Text file busy"},
    {EINVAL, "Invalid argument"},
    {EBADF, "Bad file descriptor"},
    {EMFILE, "Too many open files"},
    {ENFILE, "Too many open files in system"},
    {EAGAIN, "Resource temporarily unavailable"},
    {ESTALE, "Another file has taken its place"},
    {EIO, "Input/output error"},
    {EOPNOTSUPP, "Operation not supported"},
    {ENOSYS, "Function not implemented"},
};

size_t bare_length(const char *text)
{
    size_t length = 0;
    while (text[length] != '\0')
        length++;
    return length;
}

unsigned long bare_number(const char *text)
{
    unsigned long number = 0;
    for (; *text >= '0' && *text <= '9'; text++)
        number = number * 10 + (unsigned long)(*text - '0');
    return number;
}

static void bare_print(const char *text)
{
    BARE_CALL(SYS_write, STDERR_FILENO, text, bare_length(text), 0, 0);
}

/* "error 0007", for what is not in the table; the kernel's numbers have no more than four digits.
 */
static void print_number(int number)
{
    char text[] = "error 0000";
    for (size_t at = sizeof(text) - 2; number > 0 && text[at] == '0'; at--, number /= 10)
        text[at] = (char)('0' + number % 10);
    bare_print(text);
}

static void print_cause(int errnum)
{
    for (size_t i = 0; i < sizeof(causes) / sizeof(causes[0]); i++)
        if (causes[i].errnum == errnum) {
            bare_print(causes[i].words);
            return;
        }
    print_number(errnum);
}

void bare_complain(const char *what, const char *object, int errnum)
{
    bare_print("kaged: ");
    bare_print(what);
    bare_print(object);
    bare_print(": ");
    print_cause(errnum);
    bare_print("\n");
}
