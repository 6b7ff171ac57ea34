// In place of libbpf's: the XDP program compiled for a process.
#pragma once

#define bpf_htons(value) __builtin_bswap16(value)
#define bpf_ntohs(value) __builtin_bswap16(value)
