# Open-channel: geometry, chunk log, chunks written, read, copied and reset through nvme-cli's passthrough.
#
# serve: tools/guest/open-channel.toml --time instant
# programs: nvme
# modules: nvme-fabrics nvme-tcp

step connect attach -i 2 || { dmesg | tail -20; poweroff -f; }
byte() { nvme admin-passthru $D --opcode=0x06 --namespace-id=1 --data-len=4096 --read --raw-binary 2>/dev/null | od -An -t u1 -j $1 -N 1 | tr -d ' '; }
step namespace-is-open-channel test "$(byte 384)" = 1
step geometry sh -c "nvme admin-passthru $D --opcode=0xe2 --namespace-id=1 --data-len=4096 --read --raw-binary >/tmp/geometry"
number() { od -An -t $2 -j $1 -N ${2#u} /tmp/geometry | tr -d ' '; }
step major-version-2 test "$(number 0 u1)" = 2
min=$(number 128 u4); clba=$(number 72 u4)
step write-size-is-told test "$min" -gt 0
# chunk NUMBER OFFSET TYPE: a field of a chunk's descriptor.
chunk() { nvme get-log $D --namespace-id=1 --log-id=0xca --log-len=32 --lpo=$((32 * $1)) --raw-binary | od -An -t $3 -j $2 -N ${3#u} | tr -d ' '; }
start=$(chunk 1 8 u8); other=$(chunk 2 8 u8)
step chunk-1-is-free test "$(chunk 1 0 u1)" = 1
dd if=/dev/urandom of=/tmp/part bs=4096 count=$min 2>/dev/null
bytes=$((4096 * min))
step write nvme write $N -s $start -c $((min - 1)) -z $bytes -d /tmp/part
step chunk-1-is-open test "$(chunk 1 0 u1)" = 4
step write-pointer-moved test "$(chunk 1 24 u8)" = $min
step read nvme read $N -s $start -c $((min - 1)) -z $bytes -d /tmp/back
step same-data same /tmp/part /tmp/back
step out-of-order-is-refused refused nvme write $N -s $((start + clba - min)) -c $((min - 1)) -z $bytes -d /tmp/part
dd if=/tmp/part of=/tmp/sector bs=4096 count=1 skip=$((min - 1)) 2>/dev/null
# Vector commands with one address in the command.
low() { echo $(($1 & 0xffffffff)); }; high() { echo $(($1 >> 32)); }
at=$((start + min - 1))
step vector-read sh -c "nvme io-passthru $N --opcode=0x92 --namespace-id=1 --cdw10=$(low $at) --cdw11=$(high $at) --data-len=4096 --read --raw-binary >/tmp/one"
step vector-read-same same /tmp/sector /tmp/one
# A list in front of the data.
i=0; : >/tmp/list
while [ $i -lt $min ]; do
    a=$((start + min + i)); k=0
    while [ $k -lt 8 ]; do printf "\\$(printf %03o $((a & 255)))" >>/tmp/list; a=$((a >> 8)); k=$((k + 1)); done
    i=$((i + 1))
done
cat /tmp/list /tmp/part >/tmp/both
step vector-write-list nvme io-passthru $N --opcode=0x91 --namespace-id=1 --cdw12=$((min - 1)) --data-len=$((8 * min + bytes)) --write --input-file=/tmp/both
step write-pointer-moved-again test "$(chunk 1 24 u8)" = $((2 * min))
step stage-list nvme io-passthru $N --opcode=0x95 --namespace-id=1 --cdw10=9 --cdw12=$((min - 1)) --data-len=$((8 * min)) --write --input-file=/tmp/list
step vector-read-list sh -c "nvme io-passthru $N --opcode=0x92 --namespace-id=1 --cdw10=9 --cdw12=$((min - 1)) --data-len=$bytes --read --raw-binary >/tmp/back2"
step vector-read-list-same same /tmp/part /tmp/back2
step vector-reset nvme io-passthru $N --opcode=0x90 --namespace-id=1 --cdw10=$(low $start) --cdw11=$(high $start)
step chunk-1-is-free-again test "$(chunk 1 0 u1)" = 1
step write-other nvme write $N -s $other -c $((min - 1)) -z $bytes -d /tmp/part
step dsm-reset nvme dsm $N --namespace-id=1 --ad --slbs=$other --blocks=$clba
step chunk-2-is-free-again test "$(chunk 2 0 u1)" = 1
step dulbe-on nvme set-feature $D --namespace-id=1 --feature-id=5 --value=0x10000
step unwritten-is-an-error refused nvme read $N -s $other -c $((min - 1)) -z $bytes -d /tmp/back
step dulbe-off nvme set-feature $D --namespace-id=1 --feature-id=5 --value=0
step unwritten-is-zeros nvme read $N -s $other -c $((min - 1)) -z $bytes -d /tmp/back
step media-feedback nvme set-feature $D --namespace-id=1 --feature-id=0xca --value=2
step notice-log nvme get-log $D --namespace-id=1 --log-id=0xd0 --log-len=64 -b
step disconnect nvme disconnect -n $NQN
