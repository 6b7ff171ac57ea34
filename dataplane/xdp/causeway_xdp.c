// The XDP program of a port that is shared with the kernel: packets to UDP 4791 of the gateway's addresses go to its AF_XDP
// sockets, and everything else goes on to the kernel as if nobody had looked.
//
// Taken are unicast frames with at most one 802.1Q tag, IPv4 with or without options, IPv6 with UDP right behind its header. What
// is taken and then not to the gateway's liking (options, broken lengths, unknown opcodes) it drops and counts by reason.
// Fragments are the kernel's: those behind the first have no port to tell them by, and RoCE packets are never fragmented.
//
// The casts are for C++: tests/fuzz/xdp_filter_fuzz.cc compiles it for a process, and holds it against AddressFilter.
//
// A packet of ours that comes on a queue without a socket is dropped, not passed: the kernel would answer that nobody listens.
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/udp.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#define ROCE_UDP_PORT 4791
#define IPV4_FRAGMENT 0x3fff  // more fragments, and the offset
#define VLAN_ID 0x0fff

// As xdp_filter.cc writes it.
struct own_address {
  __u8 raw[16];  // IPv4 as ::ffff:a.b.c.d
  __u32 vlan;       // 802.1Q id, 0 = untagged
};

struct vlan_tag {
  __be16 control;
  __be16 ether_type;
};

// DPDK's net_af_xdp puts its sockets here, by this name.
struct {
  __uint(type, BPF_MAP_TYPE_XSKMAP);
  __uint(max_entries, 256);
  __type(key, __u32);
  __type(value, __u32);
} xsks_map SEC(".maps");

struct {
  __uint(type, BPF_MAP_TYPE_HASH);
  __uint(max_entries, 16);
  __type(key, struct own_address);
  __type(value, __u32);
} own_addresses SEC(".maps");

static __always_inline int is_roce(struct udphdr *udp, void *end) {
  return (void *)(udp + 1) <= end && udp->dest == bpf_htons(ROCE_UDP_PORT);
}

// What takes CAP_PERFMON, and CAP_BPF does not bring: adding a number read from the packet to a pointer into it, and comparing
// such a pointer with null. Hence one constant for each length of an IPv4 header, hidden from the optimiser.
#define CASE_WORDS(words)                      \
  case words: {                                \
    void *udp = (char *)ip_begin + (words)*4;  \
    __asm__ volatile("" : "+r"(udp));          \
    return is_roce((struct udphdr *)udp, end); \
  }

static __always_inline int is_roce_behind(void *ip_begin, __u8 header_words, void *end) {
  switch (header_words) {
    CASE_WORDS(5)
    CASE_WORDS(6)
    CASE_WORDS(7)
    CASE_WORDS(8)
    CASE_WORDS(9)
    CASE_WORDS(10)
    CASE_WORDS(11)
    CASE_WORDS(12)
    CASE_WORDS(13)
    CASE_WORDS(14)
    CASE_WORDS(15)
    default:
      return 0;
  }
}

// These two say whether it is RoCE, and in `to` to whom.
static __always_inline int is_roce_over_ipv4(void *ip_begin, void *end, struct own_address *to) {
  struct iphdr *ip = (struct iphdr *)ip_begin;
  if ((void *)(ip + 1) > end || ip->version != 4 || ip->protocol != IPPROTO_UDP ||
      (ip->frag_off & bpf_htons(IPV4_FRAGMENT)) != 0) {
    return 0;
  }
  to->raw[10] = 0xff;
  to->raw[11] = 0xff;
  __builtin_memcpy(to->raw + 12, &ip->daddr, 4);
  return is_roce_behind(ip_begin, ip->ihl, end);
}

static __always_inline int is_roce_over_ipv6(void *ip_begin, void *end, struct own_address *to) {
  struct ipv6hdr *ip = (struct ipv6hdr *)ip_begin;
  if ((void *)(ip + 1) > end || ip->version != 6 || ip->nexthdr != IPPROTO_UDP) {
    return 0;
  }
  __builtin_memcpy(to->raw, &ip->daddr, 16);
  return is_roce((struct udphdr *)(ip + 1), end);
}

SEC("xdp")
int causeway_xdp(struct xdp_md *context) {
  void *end = (void *)(long)context->data_end;
  struct ethhdr *ethernet = (struct ethhdr *)(long)context->data;
  if ((void *)(ethernet + 1) > end || (ethernet->h_dest[0] & 1) != 0) {
    return XDP_PASS;
  }
  struct own_address to = {};
  void *ip = ethernet + 1;
  __be16 ether_type = ethernet->h_proto;
  if (ether_type == bpf_htons(ETH_P_8021Q)) {
    struct vlan_tag *tag = (struct vlan_tag *)ip;
    if ((void *)(tag + 1) > end) {
      return XDP_PASS;
    }
    to.vlan = bpf_ntohs(tag->control) & VLAN_ID;
    ether_type = tag->ether_type;
    ip = tag + 1;
  }
  int roce = 0;
  if (ether_type == bpf_htons(ETH_P_IP)) {
    roce = is_roce_over_ipv4(ip, end, &to);
  } else if (ether_type == bpf_htons(ETH_P_IPV6)) {
    roce = is_roce_over_ipv6(ip, end, &to);
  }
  if (!roce || !bpf_map_lookup_elem(&own_addresses, &to)) {
    return XDP_PASS;
  }
  return bpf_redirect_map(&xsks_map, context->rx_queue_index, XDP_DROP);
}

char causeway_xdp_license[] SEC("license") = "Apache-2.0";
