#!/bin/sh
# Boots systemd as PID 1 of new namespaces (pid, mount, uts, ipc, cgroup) on a copy-on-write view of this machine.
#
#   boot.sh SCRATCH SITE SYSTEMD NOTIFY_SOCKET PATH...
#
# SCRATCH: an empty folder for the view; SITE: what is bound to /srv/site; PATH...: what a service's user must be able to
# read. Nothing is changed outside: the view is written to memory, /proc/sys is read-only, and what only sets up a
# machine (kernel settings, devices, timers) is left out.
set -eu
scratch=$1 site=$2 systemd=$3 told=$4
shift 4

mount -t tmpfs -o mode=755 tmpfs "$scratch"
new=$scratch/new
mkdir "$scratch/upper" "$scratch/work" "$new"
mount -t overlay -o "lowerdir=/,upperdir=$scratch/upper,workdir=$scratch/work" overlay "$new"
mount -t proc proc "$new/proc"
mount --bind "$new/proc/sys" "$new/proc/sys"
mount -o remount,bind,ro "$new/proc/sys"
mount -t sysfs -o ro sysfs "$new/sys"
mount -t cgroup2 cgroup2 "$new/sys/fs/cgroup"
for place in run tmp dev; do
    mount -t tmpfs -o mode=755 tmpfs "$new/$place"
done
chmod 1777 "$new/tmp"
for device in null zero full random urandom tty; do
    touch "$new/dev/$device"
    mount --bind "/dev/$device" "$new/dev/$device"
done
mkdir "$new/dev/pts" "$new/dev/shm"
mount -t devpts -o newinstance,ptmxmode=0666 devpts "$new/dev/pts"
ln -s pts/ptmx "$new/dev/ptmx"
mount -t tmpfs -o mode=1777 tmpfs "$new/dev/shm"

mkdir -p "$new/srv/site" "$new/old"
mount --bind "$site" "$new/srv/site"
for path in "$@"; do
    # another file system than that of / is not in the view
    [ -e "$new$path" ] || { mkdir -p "$new$path" && mount --rbind "$path" "$new$path"; }
    while [ "$path" != / ]; do
        chmod o+x "$new$path"
        path=$(dirname "$path")
    done
done

for place in etc lib usr/lib; do
    for wanted in sysinit sockets timers local-fs basic; do
        rm -rf "$new/$place/systemd/system/$wanted.target.wants"
    done
done
cat >"$new/etc/systemd/system/test.target" <<END
[Unit]
Requires=basic.target systemd-journald.service
After=basic.target systemd-journald.service
END

cd "$new"
# not chroot: services would see what is mounted outside
pivot_root . old
mount --make-rshared /
umount -l /old
exec env -i container=x NOTIFY_SOCKET="$told" "$systemd" --system --unit=test.target
