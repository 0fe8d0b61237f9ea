# In-band authentication: Linux proves that it knows its secret, with a Diffie-Hellman group, and is refused with another secret or none.
#
# serve: bench/serve-ram.toml --time instant --dhchap-group ffdhe3072
# secret
# kernel: 6.12
# programs: nvme
# modules: nvme-fabrics nvme-tcp

step attach attach -i 2 --dhchap-secret=$SECRET || { dmesg | tail -20; poweroff -f; }
dd if=/dev/urandom of=/tmp/data bs=64k count=4 2>/dev/null
step write dd if=/tmp/data of=$N bs=64k count=4 conv=fsync
forget_cache
dd if=$N of=/tmp/back bs=64k count=4 2>/dev/null
step compare same /tmp/data /tmp/back
step reset nvme reset $D
step after-reset until_true block_device
step disconnect nvme disconnect -n $NQN
other=$(nvme gen-dhchap-key --hmac=1 --nqn=$HOST_NQN)
step another-secret-is-refused refused nvme connect $TARGET -n $NQN --dhchap-secret=$other
step no-secret-is-refused refused nvme connect $TARGET -n $NQN
step right-again attach -i 1 --dhchap-secret=$SECRET
step disconnect-again nvme disconnect -n $NQN
