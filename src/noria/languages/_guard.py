"""A library in C that test programs are started with: one that leaves before the end of its `main` has not passed."""

from __future__ import annotations

#: Loaded before the C library, so that calls of these functions come here. What returns from `main` does not.
GUARD = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

static pid_t own;

__attribute__((constructor)) static void begin(void) {
    own = getpid();
    unsetenv("LD_PRELOAD");
}

static int odd(int code) { return code || getpid() != own ? code : 97; }

__attribute__((noreturn)) void _exit(int code) {
    for (;;) syscall(SYS_exit_group, odd(code));
}

__attribute__((noreturn)) void _Exit(int code) { _exit(code); }
__attribute__((noreturn)) void quick_exit(int code) { _exit(code); }

__attribute__((noreturn)) void exit(int code) {
    void (*real)(int) = (void (*)(int))dlsym(RTLD_NEXT, "exit");
    real(odd(code));
    for (;;);
}

static int refused(void) {
    errno = EPERM;
    return -1;
}

int execve(const char *path, char *const words[], char *const env[]) {
    int (*real)(const char *, char *const[], char *const[]) = dlsym(RTLD_NEXT, "execve");
    return getpid() == own ? refused() : real(path, words, env);
}

int execvpe(const char *path, char *const words[], char *const env[]) {
    int (*real)(const char *, char *const[], char *const[]) = dlsym(RTLD_NEXT, "execvpe");
    return getpid() == own ? refused() : real(path, words, env);
}

int execv(const char *path, char *const words[]) {
    int (*real)(const char *, char *const[]) = dlsym(RTLD_NEXT, "execv");
    return getpid() == own ? refused() : real(path, words);
}

int execvp(const char *path, char *const words[]) {
    int (*real)(const char *, char *const[]) = dlsym(RTLD_NEXT, "execvp");
    return getpid() == own ? refused() : real(path, words);
}
"""
