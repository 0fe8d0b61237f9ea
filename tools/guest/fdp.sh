# Flexible data placement: a drive with four handles, asked and told through nvme-cli, and written with the placement directive.
#
# serve: tools/guest/fdp.toml --time instant
# programs: nvme
# modules: nvme-fabrics nvme-tcp

step connect attach -i 2 || { dmesg | tail -20; poweroff -f; }
step id-ctrl nvme id-ctrl $D
step endurance-group sh -c "nvme id-ns $N | grep -q 'endgid *: 1'"
step endurance-group-list nvme list-endgrp $D
step endurance-group-log nvme endurance-log $D -g 1; show endurance
step directives nvme dir-receive $D -n 1 -D 0 -O 1 -l 4096 -H; show directives
step fdp-configs nvme fdp configs $D -e 1; show configs
step fdp-usage nvme fdp usage $D -e 1
step fdp-stats nvme fdp stats $D -e 1
step fdp-status nvme fdp status $N; show status
left() { nvme fdp status $N -o json | tr ',{}' '\n' | grep -i ruamw | sed -n "${1}s/[^0-9]*//gp"; }
before=$(left 3)
dd if=/dev/urandom of=/tmp/part bs=4k count=16 2>/dev/null
step enable-events nvme fdp set-events $N -p 0 -e 1 -t 0,3
step write-with-handle-2 nvme write $N -s 0 -c 127 -z 65536 -d /tmp/part -T 2 -S 2
step flush nvme flush $N -n 1
step units-left-differ test "$(left 3)" -lt "$before"
step handle-beyond-goes-to-handle-0 nvme write $N -s 0 -c 127 -z 65536 -d /tmp/part -T 2 -S 4
step read-back nvme read $N -s 0 -c 127 -z 65536 -d /tmp/back
step same-data same /tmp/part /tmp/back
step fdp-update nvme fdp update $N -p 2
step handle-2-is-full-again test "$(left 3)" = "$before"
step fdp-events nvme fdp events $D -e 1 -E; show events
cp /tmp/out /tmp/events
step an-invalid-placement-was-logged grep -qi "invalid placement" /tmp/events
step disconnect nvme disconnect -n $NQN
