# The first part of every guest's init: devices, modules, and how machines start. What comes before it sets $folder, $tools, $nandu and the
# milliseconds that the slow device takes: $delay, and $write_delay for a write.
export PATH="$tools/sbin:$tools/usr/sbin:$tools/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
export LD_LIBRARY_PATH="$tools/usr/lib/x86_64-linux-gnu:$tools/lib/x86_64-linux-gnu"
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t tmpfs run /run
cd /run
ip link set lo up
for module in nbd dm-delay raid1 raid456 bcache dm-cache dm-cache-smq dm-writecache; do
    modprobe -d "$tools" "$module"
done
set -e

# A device of the mapper; nobody else makes its node here.
map() {
    dmsetup create --noudevsync "$1" --table "$2"
    dmsetup mknodes
}

fast=/dev/ubda third=/dev/ubdc fourth=/dev/ubdd slow=/dev/mapper/slow
sectors=$(blockdev --getsz /dev/ubdb)
map slow "0 $sectors delay /dev/ubdb 0 $delay /dev/ubdb 0 $write_delay /dev/ubdb 0 $delay"

# The kernel's NBD client, at the socket $1.
attach() {
    tries=0
    until [ -S "$1" ]; do
        tries=$((tries + 1))
        [ $tries -lt 300 ] || { echo "no server at $1"; return 1; }
        sleep 0.1
    done
    nbd-client -unix "$1" /dev/nbd0 -name data
    disk=/dev/nbd0
}

kit() {
    nbdkit -U /run/kit file "$1"
    attach /run/kit
}

serve() {
    "$nandu" serve "$folder/stack.toml" -U /run/nandu --log "$folder/server.log" "$@" &
    attach /run/nandu
}

# The write-mostly member comes first: behind the other one Linux 6.1 leaves write-behind out, and does not say so.
raid1_create() {
    mdadm --create /dev/md0 --run --assume-clean --level=1 --raid-devices=2 --bitmap=internal --write-behind=256 \
        --write-mostly $slow $fast
    echo -writemostly > "/sys/block/md0/md/dev-${fast#/dev/}/state"
    disk=/dev/md0
}

raid5_create() {
    mdadm --create /dev/md0 --run --assume-clean --level=5 --raid-devices=3 --chunk=64 --bitmap=internal $fast $third $fourth
    disk=/dev/md0
}

assemble() {
    mdadm --assemble --run /dev/md0 "$@"
    disk=/dev/md0
}

bcache_start() {
    for member; do echo "$member" > /sys/fs/bcache/register; done
    # Without its cache the kernel starts the device only when it is told to; the slow device is the first of the mapper.
    [ $# -gt 1 ] || echo 1 > /sys/block/dm-0/bcache/running
    tries=0
    until [ -b /dev/bcache0 ]; do
        tries=$((tries + 1))
        [ $tries -lt 100 ] || { echo "bcache does not start"; return 1; }
        sleep 0.1
    done
    disk=/dev/bcache0
}

# Eight MiB of the fast device are for its records.
dm_cache() {
    fast_sectors=$(blockdev --getsz $fast)
    map meta "0 16384 linear $fast 0"
    map data "0 $((fast_sectors - 16384)) linear $fast 16384"
    map cache "0 $sectors cache /dev/mapper/meta /dev/mapper/data $slow 128 1 writeback smq 0"
    disk=/dev/mapper/cache
}

dm_writecache() {
    map wc "0 $sectors writecache s $slow $fast 4096 0"
    disk=/dev/mapper/wc
}

load() {
    name=$1 && shift
    fio --name="$name" --filename="$disk" --size=32m --direct=1 --ioengine=libaio --bs=4k --thread --time_based \
        --output-format=json --output="$folder/$name.json" "$@" < /dev/null
}
