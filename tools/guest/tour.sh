# README's tour, as it stands there: attach, file system, power cut, come back. What `pellucid` does is done by the host.
#
# serve: jasmine
# file store
# readme: attach power
# programs: nvme mkfs.ext4
# modules: nvme-fabrics nvme-tcp

# The README's server is on this machine, ours on the host: port 4420 leads there. The names a host has are in /etc/nvme.
nc -ll -p 4420 -e nc 10.0.2.2 $PORT &
mkdir -p /etc/nvme; echo $HOST_NQN >/etc/nvme/hostnqn; echo $HOST_ID >/etc/nvme/hostid
# The modules are there already, and there is no depmod.
modprobe() { grep -q "^nvme_tcp " /proc/modules; }

while read -r line <&3; do
    case $line in
    pellucid*) step "$line" host "$line" ;;
    modprobe*) step "$line" $line ;;
    *) step "$line" sh -c "$line" ;;
    esac
    # The device's node comes a moment after the connection.
    case $line in nvme\ connect*) step device until_true block_device ;; esac
done 3</readme
