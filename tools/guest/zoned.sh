# Zones: what Linux makes of the namespace, zone management and data through nvme-cli and blkzone, zonefs
# across a remount. zonefs is not written to here: that of Debian's 6.1.0-56 advances its idea of the write pointer before it appends,
# then takes the sector that the append returns, the right one, for a corrupted write pointer. 6.12 (zoned-fs.sh) does neither.
#
# serve: tools/guest/zoned.toml --time instant
# programs: nvme blkzone
# modules: nvme-fabrics nvme-tcp zonefs

step connect attach -i 2 || { dmesg | tail -20; poweroff -f; }
Q=/sys/block/nvme0n1/queue
step linux-sees-zones test "$(cat $Q/zoned)" = host-managed
step it-may-be-written test "$(cat /sys/block/nvme0n1/ro)" = 0
step append-is-known test "$(cat $Q/zone_append_max_bytes)" -gt 0
step blkzone-report blkzone report $N
zones=$(wc -l </tmp/out); step zones-are-reported test "$zones" = "$(cat $Q/nr_zones)"
step zns-id-ns nvme zns id-ns $N
cp /tmp/out /tmp/id-ns
step limits sh -c "grep -q 'mar *: 0x7' /tmp/id-ns && grep -q 'mor *: 0x5' /tmp/id-ns"
step zns-id-ctrl nvme zns id-ctrl $D
step zns-report nvme zns report-zones $N -d 4; show report
step zns-changed-zones nvme zns changed-zone-list $N
size=$(($(cat $Q/chunk_sectors) / 8))
# condition ZONE: the second word of `blkzone report`'s zcond.
state() { blkzone report -o $(($1 * size * 8)) -c 1 $N | sed -n 's/.*zcond: *[0-9a-z]*(\([a-z]*\)).*/\1/p'; }
step zone-0-is-empty test "$(state 0)" = em
step zns-open nvme zns open-zone $N -s 0
step zone-0-is-open test "$(state 0)" = oe
dd if=/dev/urandom of=/tmp/part bs=4096 count=4 2>/dev/null
step zns-append nvme zns zone-append $N -s 0 -z 16384 -d /tmp/part
step append-to-zone-4 nvme zns zone-append $N -s $((4 * size)) -z 16384 -d /tmp/part; cp /tmp/out /tmp/append; show append
step append-says-where grep -q "LBA $(printf %x $((4 * size)))$" /tmp/append
step write-at-pointer nvme write $N -s 4 -c 3 -z 16384 -d /tmp/part
step write-elsewhere-is-refused refused nvme write $N -s 100 -c 3 -z 16384 -d /tmp/part
step read nvme read $N -s 4 -c 3 -z 16384 -d /tmp/back
step same-data same /tmp/part /tmp/back
step zns-close nvme zns close-zone $N -s 0
step zone-0-is-closed test "$(state 0)" = cl
step zns-finish nvme zns finish-zone $N -s 0
step zone-0-is-full test "$(state 0)" = fu
step blkzone-reset blkzone reset -o 0 -c 1 $N
step zone-0-is-empty-again test "$(state 0)" = em
i=0; while [ $i -lt 6 ]; do nvme zns open-zone $N -s $((i * size)) >/dev/null; i=$((i + 1)); done
step a-seventh-open-zone-is-refused refused nvme zns open-zone $N -s $((6 * size))
step reset-all nvme zns reset-zone $N -a
step all-are-empty test "$(blkzone report $N | grep -c '(em)')" = "$zones"
# zonefs: a super block in zone 0, then every zone is a file that is written at its end.
# The super block: magic number and checksum, the rest zeros.
dd if=/dev/zero of=/tmp/super bs=4096 count=4 2>/dev/null
printf '\123\106\117\132\005\253\277\131' | dd of=/tmp/super conv=notrunc 2>/dev/null
step zonefs-super-block nvme write $N -s 0 -c 3 -z 16384 -d /tmp/super
step zonefs-data nvme write $N -s $((4 * size)) -c 3 -z 16384 -d /tmp/part
step zonefs-mount mount -t zonefs $N /mnt
step zonefs-files sh -c "[ $(ls /mnt/seq | wc -l) = $((zones - 1)) ]"
step zonefs-size test "$(stat -c %s /mnt/seq/3)" = 16384
step zonefs-compare cmp /tmp/part /mnt/seq/3
step zonefs-umount umount /mnt
forget_cache
step zonefs-remount mount -t zonefs $N /mnt
step zonefs-compare-again cmp /tmp/part /mnt/seq/3
step zonefs-truncate-resets truncate -s 0 /mnt/seq/3
step zonefs-umount-again umount /mnt
step zone-4-is-empty test "$(state 4)" = em
step disconnect nvme disconnect -n $NQN
