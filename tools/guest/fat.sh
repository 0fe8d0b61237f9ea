# FAT on an NVMe drive, as sticks and cards have it: files of the size of songs, and many small ones that are written, flushed and read.
# tools/record_workloads.py records what comes of it.
#
# serve: bench/serve-ram.toml --time instant
# programs: nvme mkfs.vfat
# modules: nvme-fabrics nvme-tcp fat vfat nls_cp437 nls_ascii nls_utf8 nls_iso8859-1

step connect attach -i 1 || { dmesg | tail -20; poweroff -f; }
step mkfs mkfs.vfat $N
mount_fat() { mount -t vfat -o $1,iocharset=utf8 $N /mnt; }
step mount mount_fat rw
dd if=/dev/urandom of=/tmp/song bs=1k count=6144 2>/dev/null
copy() { for i in 1 2 3 4 5 6; do cp /tmp/song /mnt/song$i.mp3 || return 1; done; sync; }
step songs copy
# Thirty sites of eight files; a place of the history is written for each, and flushed with each site.
browse() {
    for site in $(seq 1 30); do
        mkdir /mnt/s$site || return 1
        for file in 1 2 3 4 5 6 7 8; do
            dd if=/tmp/song of=/mnt/s$site/$file bs=1k skip=$((site * 8 + file)) count=$((file * file / 2 + 2)) 2>/dev/null || return 1
        done
        dd if=/tmp/song of=/mnt/history bs=512 seek=$((site * 7)) count=3 conv=notrunc,fsync 2>/dev/null || return 1
        cat /mnt/s$((site / 2 + 1))/* >/dev/null
    done
    sync
}
step browse browse
step unmount umount /mnt
step mount-again mount_fat ro
step same cmp /tmp/song /mnt/song6.mp3
step unmount-again umount /mnt
