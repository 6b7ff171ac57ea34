// In place of libbpf's: the XDP program compiled for a process. Maps are variables; their helpers are the target's to define.
#pragma once

#include <linux/types.h>

#define SEC(name)
#define __uint(name, value) int name = (value)
#define __type(name, value) value* name = nullptr
#undef __always_inline
#define __always_inline inline __attribute__((always_inline))

void* bpf_map_lookup_elem(void* map, const void* key);
int bpf_redirect_map(void* map, __u32 key, __u64 flags);
