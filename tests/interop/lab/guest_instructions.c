// Plugin of QEMU 7.2's emulation: counts what a guest with one CPU executes, in a file that others read meanwhile (`to=FILE`), of
// struct Counts. QEMU's header is in no package of Debian 12, so what is used of it is declared here.
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define EXPORTED __attribute__((visibility("default")))

typedef uint64_t qemu_plugin_id_t;
struct qemu_plugin_tb;
struct qemu_plugin_insn;
enum { kAddU64 = 0 };  // QEMU_PLUGIN_INLINE_ADD_U64
extern void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t, void (*)(qemu_plugin_id_t, struct qemu_plugin_tb*));
extern void qemu_plugin_register_vcpu_tb_exec_inline(struct qemu_plugin_tb*, int op, void* to, uint64_t add);
extern size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb*);
extern uint64_t qemu_plugin_tb_vaddr(const struct qemu_plugin_tb*);
extern struct qemu_plugin_insn* qemu_plugin_tb_get_insn(const struct qemu_plugin_tb*, size_t);
extern const void* qemu_plugin_insn_data(const struct qemu_plugin_insn*);
extern size_t qemu_plugin_insn_size(const struct qemu_plugin_insn*);

struct Counts {
  uint64_t kernel;  // instructions
  uint64_t user;
  uint64_t moved;   // bytes by rep movs
  uint64_t filled;  // bytes by rep stos
};
static struct Counts* counts;

// A repeated instruction is a block of its own, which runs once for each element. 0: it is no such block.
static uint64_t element_bytes(const uint8_t* code, size_t size, int* fills) {
  if (size < 2 || code[0] != 0xf3) {
    return 0;
  }
  const int wide = code[1] == 0x48 && size > 2;
  const uint8_t operation = code[1 + wide];
  *fills = operation == 0xaa || operation == 0xab;
  if (operation == 0xa4 || operation == 0xaa) {
    return 1;
  }
  return operation == 0xa5 || operation == 0xab ? (wide ? 8 : 4) : 0;
}

static void count_block(qemu_plugin_id_t id, struct qemu_plugin_tb* block) {
  (void)id;
  const size_t instructions = qemu_plugin_tb_n_insns(block);
  if (instructions == 1) {
    const struct qemu_plugin_insn* only = qemu_plugin_tb_get_insn(block, 0);
    int fills = 0;
    const uint64_t bytes = element_bytes(qemu_plugin_insn_data(only), qemu_plugin_insn_size(only), &fills);
    if (bytes != 0) {
      qemu_plugin_register_vcpu_tb_exec_inline(block, kAddU64, fills ? &counts->filled : &counts->moved, bytes);
      return;
    }
  }
  const int in_kernel = qemu_plugin_tb_vaddr(block) >> 63 != 0;
  qemu_plugin_register_vcpu_tb_exec_inline(block, kAddU64, in_kernel ? &counts->kernel : &counts->user, instructions);
}

EXPORTED int qemu_plugin_version = 1;

EXPORTED int qemu_plugin_install(qemu_plugin_id_t id, const void* info, int argc, char** argv) {
  (void)info;
  if (argc != 1 || strncmp(argv[0], "to=", 3) != 0) {
    return 1;
  }
  const int file = open(argv[0] + 3, O_RDWR | O_CREAT | O_TRUNC, 0600);
  if (file < 0 || ftruncate(file, sizeof(struct Counts)) != 0) {
    return 1;
  }
  counts = mmap(NULL, sizeof(struct Counts), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (counts == MAP_FAILED) {
    return 1;
  }
  qemu_plugin_register_vcpu_tb_trans_cb(id, count_block);
  return 0;
}
