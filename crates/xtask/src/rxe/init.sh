#!/bin/busybox sh
# The guest's first process: loads modules, mounts the host's files, runs the job, ends the guest.
busybox=/bin/busybox
$busybox mount -t proc proc /proc
$busybox mount -t sysfs sys /sys
$busybox mount -t devtmpfs dev /dev
while read -r module; do
    $busybox insmod "/$module" || echo "farwood-rxe: $module is not loaded"
done </modules/order
$busybox mount -t 9p -o trans=virtio,version=9p2000.L,ro,cache=loose,msize=524288 host /host
$busybox mount -t proc proc /host/proc
$busybox mount -t sysfs sys /host/sys
$busybox mount --rbind /dev /host/dev
for folder in /host/tmp /host/run /host/dev/shm; do
    $busybox mkdir -p "$folder"
    $busybox mount -t tmpfs tmp "$folder"
done
$busybox cp /job /host/run/farwood-rxe
$busybox chroot /host /bin/bash /run/farwood-rxe
echo "farwood-rxe: exit $?"
$busybox poweroff -f
