#!/bin/sh
# A check for continuous integration: do flushed data survive power cuts, on a drive whose faults follow a seed?
# Replace fio by the program under test. Needs pellucid and fio on the PATH; leaves nothing behind.
#
#   SEED=7 sh examples/serve/power-cut-check.sh
#
# 1. fio writes and flushes data; some flash programs fail, which no host may notice.
# 2. fio writes elsewhere until the power is cut. It has to notice: its requests fail.
# 3. fio verifies what was flushed in step 1.
set -eu
seed=${SEED:-7}
directory=$(mktemp -d)
cd "$directory"
pellucid serve cosmos-plus --set media.store=ram --set media.blocks=32 --set ftl.durability=journal \
    --nbd unix:drive.nbd --control drive.control --log-format json --time instant \
    --fault program-fail=0.0002@0s --fault "power-cut@4000ops:times=1" 2>drive.log &
server=$!
trap 'kill $server 2>/dev/null; wait $server 2>/dev/null; rm -rf "$directory"' EXIT
tries=0
until [ -S drive.control ]; do
    tries=$((tries + 1)); [ $tries -lt 100 ] || { cat drive.log; exit 1; }
    kill -0 $server || { cat drive.log; exit 1; }
    sleep 0.1
done
fio() { command fio --ioengine=nbd --uri='nbd+unix:///?socket=drive.nbd' --bs=16k --iodepth=8 --verify=crc32c --randseed="$seed" --verify_state_save=0 "$@"; }
promised='--name=promised --rw=randwrite --size=32m'
fio $promised --do_verify=0 --end_fsync=1 >fio.log || { cat fio.log drive.log; exit 1; }
if fio --name=cut --rw=randwrite --offset=64m --size=48m --do_verify=0 >fio.log 2>&1; then
    echo 'the power was not cut'; exit 1
fi
fio $promised --verify_only --verify_fatal=1 >fio.log || { cat fio.log drive.log; exit 1; }
grep '"event":"fault"' drive.log
echo "seed $seed: all that was flushed is there"
