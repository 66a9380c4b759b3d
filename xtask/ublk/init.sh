#!/bin/sh
# The first process of the guest of `cargo xtask ublk`: serves stacks as block devices, and looks whether they behave as such.
# Each check says `ublk: NAME: ok` or `ublk: NAME: FAILED`. A line of its own says that all were taken.

export PATH=/bin:/sbin:/usr/bin:/usr/sbin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev
mount -t tmpfs -o size=1400m tmp /tmp
chmod 1777 /tmp
mkdir -p /dev/shm /mnt /run
mount -t tmpfs shm /dev/shm
ip link set lo up
echo 4 > /proc/sys/kernel/printk
cd /tmp

DEVICE=/dev/ublkb0
failed=0

only=$(sed -n 's/.* only=\([^ ]*\).*/\1/p' /proc/cmdline)

check() { # NAME COMMAND...
    name=$1
    shift
    case "$name" in
        *"$only"* | "a kernel without"* | "a device is there") ;;
        *) return ;;
    esac
    begun=$(cut -d. -f1 /proc/uptime)
    if "$@" > check.log 2>&1; then
        echo "ublk: $name: ok, $(($(cut -d. -f1 /proc/uptime) - begun)) s"
        grep '^figure:' check.log | sed "s/^figure:/ublk: $name:/"
    else
        echo "ublk: $name: FAILED"
        tail -n 25 check.log
        echo "-- the server's log"
        tail -n 15 server.log
        dmesg | tail -n 15
        failed=$((failed + 1))
    fi
}

wait_for() { # COMMAND...: until it succeeds, for a minute
    for _ in $(seq 600); do
        "$@" > /dev/null 2>&1 && return 0
        sleep 0.1
    done
    echo "waited in vain: $*"
    return 1
}

is_gone() { ! test -e "$1"; }
has_ended() { ! kill -0 "$1"; }

serve() { # OPTION...: in the background, until the device is there
    : > ready
    nandu serve stack.toml --ublk 0 --log server.log "$@" > ready 2>> server.log &
    server=$!
    wait_for grep -q "^$DEVICE\$" ready
}

end() { # cleanly: the device goes
    kill -TERM $server && wait $server && is_gone $DEVICE
}

crash() { kill -KILL $server; wait $server 2> /dev/null; true; }

no_driver() {
    ! nandu serve stack.toml --ublk --create 2> refused.txt || return 1
    cat refused.txt
    grep -q 'modprobe ublk_drv' refused.txt && is_gone a.img
}

starts() {
    serve --create || return 1
    cd /sys/block/ublkb0/queue
    says="$(cat logical_block_size write_cache fua max_sectors_kb discard_granularity)"
    cd /tmp
    echo $says $(blockdev --getsize64 $DEVICE)
    test "$(echo $says)" = "512 write back 1 1024 512" && test "$(blockdev --getsize64 $DEVICE)" -gt 120000000
}

number_in_use() {
    sed 's/a.img/c.img/; s/b.img/d.img/' stack.toml > other.toml
    timeout 30 nandu serve other.toml --ublk 0 --create 2> refused.txt
    test $? = 2 || return 1
    cat refused.txt
    grep -q "has a server (process $server)" refused.txt && is_gone c.img
}

# The same changes to the device and to a file; then they are compared.
pattern() {
    size=$((64 << 20))
    dd if=/dev/zero of=reference bs=1M count=64 2> /dev/null
    dd if=/dev/zero of=$DEVICE bs=1M count=64 oflag=direct 2> /dev/null || return 1
    awk 'BEGIN { srand(4711); for (i = 0; i < 100; i++) print int(rand() * 4), int(rand() * 130000), 1 + int(rand() * 900), int(rand() * 3000) }' |
        while read -r op at count from; do
            case $op in
                0 | 1)
                    how=$(test $op = 0 && echo oflag=direct || echo conv=notrunc,fsync)
                    dd if=random skip="$from" of=$DEVICE seek="$at" count="$count" bs=512 iflag=fullblock $how 2> /dev/null || exit 1
                    dd if=random skip="$from" of=reference seek="$at" count="$count" bs=512 iflag=fullblock conv=notrunc 2> /dev/null
                    ;;
                *)
                    /usr/sbin/blkdiscard $(test $op = 2 && echo -z) -o $((at * 512)) -l $((count * 512)) $DEVICE || exit 1
                    dd if=/dev/zero of=reference seek="$at" count="$count" bs=512 conv=notrunc 2> /dev/null
                    ;;
            esac
        done || return 1
    sync
    echo 3 > /proc/sys/vm/drop_caches
    cmp -n $size $DEVICE reference
}

file_system() {
    mkfs.ext4 -q -F $DEVICE || return 1
    mount -t ext4 $DEVICE /mnt || return 1
    cp -r /usr/sbin /mnt/copy && sync && umount /mnt || return 1
    e2fsck -fn $DEVICE || return 1
    echo 3 > /proc/sys/vm/drop_caches
    mount -t ext4 $DEVICE /mnt && diff -r /usr/sbin /mnt/copy && fstrim_all && umount /mnt && e2fsck -fn $DEVICE
}

fstrim_all() { rm -r /mnt/copy && fstrim -v /mnt; }

verified() { # OPTION...
    fio --name=verified --filename=$DEVICE --direct=1 --ioengine=libaio --iodepth=16 --rw=randwrite --verify=crc32c --verify_fatal=1 --fsync=64 --randseed=4711 \
        --output=fio.txt "$@" || { cat fio.txt; return 1; }
    ! grep -q 'err= *[1-9]' fio.txt || { cat fio.txt; return 1; }
}

speed() {
    for job in "randread 1" "randread 32" "randwrite 1" "randwrite 32"; do
        set -- $job
        fio --name=speed --filename=$DEVICE --direct=1 --ioengine=libaio --bs=4k --iodepth="$2" --size=64m --rw="$1" --runtime=3 \
            --time_based --output=fio.txt || return 1
        echo "figure: $1, 4 KiB, depth $2: $(grep -o 'IOPS=[0-9.k]*' fio.txt | head -n 1)"
    done
}

# What fio writes is verified, and the server dies three times meanwhile.
killed_under_load() {
    verified --bs=4k --size=16m --rate_iops=400 &
    load=$!
    for _ in 1 2 3; do
        sleep 3
        kill -0 $load || return 1
        crash
        sleep 0.3
        serve || return 1
    done
    wait $load
}

# Records that were flushed are there after a crash of the server, also for who reads the stack by itself.
flushed_is_there() {
    dd if=/dev/urandom of=flushed bs=4k count=500 2> /dev/null
    dd if=flushed of=$DEVICE bs=4k oflag=direct conv=notrunc,fsync 2> /dev/null || return 1
    crash
    serve || return 1
    cmp -n 2048000 $DEVICE flushed
}

# Another server takes the device over while nobody answers, and an open file sees nothing of it.
taken_over() {
    mkfs.ext4 -q -F $DEVICE && mount -t ext4 $DEVICE /mnt || return 1
    (for n in $(seq 300); do echo "$n" >> /mnt/log && sync /mnt/log && echo "$n" > acked; done) &
    writer=$!
    sleep 2
    crash
    before=$(cat acked)
    sleep 1
    test "$(cat acked)" -le $((before + 1)) || { echo "answered by nobody"; return 1; }
    serve || return 1
    wait $writer || return 1
    test "$(tail -n 1 /mnt/log)" = 300 && test "$(wc -l < /mnt/log)" = 300 && umount /mnt && e2fsck -fn $DEVICE
}

other_size_is_refused() {
    crash
    sed 's/128 MiB/64 MiB/; s/a.img/c.img/; s/b.img/d.img/' stack.toml > other.toml
    timeout 30 nandu serve other.toml --ublk 0 --create 2> refused.txt
    test $? = 2 || return 1
    cat refused.txt
    grep -q 'waits for its server, and has [0-9]* sectors of 512 B, where export `disk` has' refused.txt && serve
}

# What a file system holds at the end is written, although it is mounted. The number is free when it is unmounted.
ends_under_a_file_system() {
    mkfs.ext4 -q -F $DEVICE && mount -t ext4 $DEVICE /mnt && cp random /mnt/unsynced && end || return 1
    timeout 60 nandu serve stack.toml --ublk 0 2> refused.txt
    test $? = 2 || return 1
    cat refused.txt
    grep -q 'taken away while it was mounted or open' refused.txt || return 1
    umount /mnt
    serve || return 1
    e2fsck -fy $DEVICE
    e2fsck -fn $DEVICE && mount -t ext4 $DEVICE /mnt && cmp random /mnt/unsynced && umount /mnt
}

read_only() {
    end && serve --read-only || return 1
    test "$(blockdev --getro $DEVICE)" = 1 && ! dd if=random of=$DEVICE count=1 oflag=direct && dd if=$DEVICE of=/dev/null count=8 iflag=direct
}

# Both members are gone: reads and writes fail, and the server lives.
lost_members() {
    end && serve --control control.sock || return 1
    nandu ctl control.sock fail a && nandu ctl control.sock fail b --force || return 1
    ! dd if=random of=$DEVICE bs=4k count=1 oflag=direct && ! has_ended $server && end
}

# A database is stopped at once, its server dies, and nothing that was committed is missing.
database() {
    bin=/usr/lib/postgresql/15/bin
    as() { su postgres -s /bin/sh -c "PATH=$bin:\$PATH PGHOST=/tmp $*"; }
    has_ended $server || end
    serve || return 1
    mkfs.ext4 -q -F $DEVICE && mount -t ext4 $DEVICE /mnt && mkdir /mnt/data && chown postgres /mnt/data || return 1
    as initdb -D /mnt/data -A trust --no-locale --no-sync > /dev/null || return 1
    printf 'listen_addresses = \047\047\nunix_socket_directories = \047/tmp\047\nshared_buffers = 8MB\nmax_wal_size = 32MB\n' >> /mnt/data/postgresql.conf
    as pg_ctl -w -t 120 -D /mnt/data -l pg.log start > /dev/null && as pgbench -i -q -s 1 postgres || return 1
    as pgbench -n -c 2 -T 12 postgres > bench.txt &
    bench=$!
    sleep 5
    crash
    serve || return 1
    wait $bench || return 1
    echo "figure: $(grep -o 'tps = [0-9.]*' bench.txt), killed once meanwhile"
    as pg_ctl -D /mnt/data -m immediate stop > /dev/null
    crash
    serve || return 1
    umount /mnt && e2fsck -fp $DEVICE
    mount -t ext4 $DEVICE /mnt && as pg_ctl -w -t 120 -D /mnt/data -l pg.log start > /dev/null || return 1
    sums=$(as "psql -At -d postgres -c 'select (select sum(abalance) from pgbench_accounts) = (select sum(bbalance) from pgbench_branches)
        and (select sum(tbalance) from pgbench_tellers) = (select sum(delta) from pgbench_history)
        and (select sum(bbalance) from pgbench_branches) = (select sum(delta) from pgbench_history)'")
    done=$(as "psql -At -d postgres -c 'select count(*) from pgbench_history'")
    answered=$(grep -o 'actually processed: [0-9]*' bench.txt | grep -o '[0-9]*$')
    echo "figure: $answered transactions answered, $done found"
    test "$sums" = t && test "$done" -ge "$answered" && as pg_ctl -D /mnt/data -m fast stop > /dev/null && umount /mnt && end
}

dd if=/dev/urandom of=random bs=1M count=2 2> /dev/null
cat > stack.toml <<'TOML'
[device.a]
kind = "file"
path = "a.img"
size = "128 MiB"

[device.b]
kind = "file"
path = "b.img"
size = "128 MiB"

[device.pair]
kind = "mirror"
legs = ["a", "b"]

[export.disk]
device = "pair"
TOML

check "a kernel without the driver is named" no_driver
insmod /ublk_drv.ko
check "a device is there" starts
check "a number in use is refused" number_in_use
check "patterns against a file" pattern
check "ext4 and fsck" file_system
check "fio with verify" verified --bsrange=512-65536 --size=48m
check "speed" speed
check "what was flushed before a kill" flushed_is_there
check "kills under fio with verify" killed_under_load
check "a file system that is taken over" taken_over
check "another size is refused" other_size_is_refused
check "an end under a file system" ends_under_a_file_system
check "read-only" read_only
check "errors" lost_members
if test -x /usr/lib/postgresql/15/bin/postgres; then
    check "PostgreSQL" database
fi
echo "ublk: all checks taken, $failed failed"
sync
poweroff -f
