"""The interop lab: everything around causewayd that an end-to-end run needs, each part bounded in time.

sandbox    private network, mount and process namespaces; when the runner ends, everything in them ends
daemon     one background program with its log
network    taps and bridges of the sandbox
guest      the Linux guest (QEMU, emulated) and its command channel
ganesha    NFS-Ganesha and the rpcbind it needs
gateway    causewayd: configuration, start, restart, metrics
testpmd    DPDK's own echo program in causewayd's place, to prove the wiring
reference  a second guest with the kernel's NFS/RDMA server in causewayd's place, to prove the suite
verbs_peer causeway-verbs-peer in causewayd's place
peers      the cases in which rping and perftest test the transport itself
workload   the steps every NFS case runs
mountstats, metrics   parsers
"""
