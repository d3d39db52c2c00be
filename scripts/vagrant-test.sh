#!/usr/bin/env bash
# Boots the project's own Vagrantfile from nothing and runs an experiment inside, on either datapath. As root, on
# Debian; hardware virtualisation is not needed (the guest's processor is emulated in software).
#
#   scripts/vagrant-test.sh          about 15 minutes on two cores; prints the result tables and the time of every stage
#   scripts/vagrant-test.sh --keep   afterwards keeps the guest running until Ctrl-C, and says how to enter it
#
# The revision that is checked out is tested, not changes that are not committed. The base box is made here by
# debootstrap and registered under the public box's name. libvirt, its network and the guest live in namespaces of
# their own, joined to the outside by slirp4netns: the machine's own network and settings are not touched, and when
# the script ends, however it ends, the kernel ends all of it. Only distribution packages stay installed.
# Needs about 8 GB in ${TMPDIR:-/var/tmp}. ECHELON_LOCK=FILE: every stage holds this lock (others measure here).
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/fresh-root.sh
. scripts/fresh-root.sh

PACKAGES=(vagrant vagrant-libvirt libvirt-daemon qemu-system-x86 qemu-utils dnsmasq-base iptables iproute2 slirp4netns
    debootstrap e2fsprogs rsync git util-linux)
BOX=debian/bookworm64
# What the public box has as well: a kernel, a network, ssh, sudo, and of Debian's standard packages (it has them all)
# the larger ones that others need: perl, and python3, without venv.
GUEST_PACKAGES=linux-image-cloud-amd64,systemd-sysv,dbus,iproute2,kmod,openssh-server,sudo,ca-certificates,rsync,apt-utils,perl,python3
DISK=10G
NAMESERVER=10.0.2.3    # slirp4netns' own
GATEWAY=192.168.121.1 # vagrant-libvirt's own, which answers for names too

# ---- outside: packages, and a world of its own for the rest

outside() {
    local keep=no argument
    for argument in "$@"; do
        case "$argument" in
            --keep) keep=yes ;;
            -h | --help) sed -n '2,/^set/{/^set/!s/^# \{0,1\}//p}' "$0"; exit 0 ;;
            *) fail "unknown option '$argument'; see --help" ;;
        esac
    done
    [ "$(id -u)" -eq 0 ] || fail "needs root: it installs packages, makes a root file system, and namespaces"
    timed "packages" install_missing "${PACKAGES[@]}"
    work=$(mktemp -d "${TMPDIR:-/var/tmp}/echelon-vagrant.XXXXXX")
    world='' wire=''
    trap leave EXIT
    trap 'exit 1' INT TERM
    git clone --quiet --no-hardlinks . "$work/repository"
    cp "$(dpkg -L vagrant | grep '/keys/vagrant.pub$')" "$work/"

    unshare --net --pid --mount --fork --kill-child --mount-proc \
        "$BASH" "$0" --inside "$work" "$keep" "$SECONDS" "${STAGES[*]}" &
    world=$!
    wait_for "its own network" differs "/proc/$world/ns/net" /proc/self/ns/net
    slirp4netns --configure --mtu=1500 --disable-host-loopback "$world" tap0 >"$work/slirp4netns.log" 2>&1 &
    wire=$!
    wait_for "its first process" note_first_process
    local code=0
    wait "$world" || code=$?
    world=''
    exit "$code"
}

leave() {
    local pid
    # By --kill-child, everything inside ends with the first, which is deaf to gentler signals.
    for pid in $world $wire; do
        kill -KILL "$pid" 2>/dev/null || true
        wait "$pid" 2>/dev/null || true
    done
    rm -rf --one-file-system "$work"
}

# What --keep names: nsenter joins the world's process namespace only by a process within it.
note_first_process() {
    grep -ls "^PPid:[[:space:]]*$world\$" /proc/[0-9]*/status | cut -d/ -f3 >"$work/pid"
    [ -s "$work/pid" ]
}

differs() { [ "$(readlink "$1")" != "$(readlink "$2")" ]; }

wait_for() {
    local what=$1
    shift
    for _ in {1..200}; do
        "$@" && return
        sleep 0.05
    done
    fail "timed out waiting for $what"
}

# ---- inside: box, libvirt, guest

inside() {
    work=$1
    local keep=$2
    SECONDS=$3
    STAGES=("$4")
    private_folders
    wait_for "the wire to the outside" has_address tap0
    timed "base box (debootstrap bookworm)" make_box
    timed "vagrant up (libvirt, boot, scripts/setup.sh)" up
    local failed=no datapath
    for datapath in kernel userspace; do
        timed "smoke.yaml in the guest, $datapath datapath" smoke "$datapath" || failed=yes
    done
    if [ "$keep" = yes ]; then
        print_stages
        printf '\nThe guest is kept until Ctrl-C. To enter it, as root:\n  %s\n' \
            "nsenter -t $(cat "$work/pid") -n -m -p -- env HOME=$HOME VAGRANT_HOME=$VAGRANT_HOME VAGRANT_CWD=$VAGRANT_CWD vagrant ssh"
        sleep infinity
    fi
    timed "vagrant destroy" vagrant destroy --force
    print_stages
    [ "$failed" = no ]
}

# Folders that libvirt writes to are private, so that nothing of it stays.
private_folders() {
    local folder
    mkdir -p "$work/world"
    cp -a /etc "$work/world/etc"
    mkdir -p "$work/world"/{run,var/lib,var/cache,var/log}
    printf 'nameserver %s\n' "$NAMESERVER" >"$work/resolv.conf"
    rm -f "$work/world/etc/resolv.conf"
    cp "$work/resolv.conf" "$work/world/etc/resolv.conf"
    for folder in etc run var/lib var/cache var/log; do
        mount --bind "$work/world/$folder" "/$folder"
    done
    mount -t sysfs sysfs /sys # the one there shows the interfaces outside
    export HOME=$work/home VAGRANT_HOME=$work/vagrant VAGRANT_CWD=$work/repository VAGRANT_CHECKPOINT_DISABLE=1
    mkdir -p "$HOME" "$VAGRANT_HOME"
}

has_address() { ip -4 -brief address show "$1" 2>/dev/null | grep -q '[0-9]/'; }

make_box() {
    local root=$work/root
    fresh_root "$root" bookworm "$GUEST_PACKAGES"
    chroot "$root" useradd --create-home --shell /bin/bash vagrant
    chroot "$root" systemctl --quiet enable ssh
    install -d -m 700 "$root/home/vagrant/.ssh"
    install -m 600 "$work/vagrant.pub" "$root/home/vagrant/.ssh/authorized_keys"
    chroot "$root" chown -R vagrant:vagrant /home/vagrant/.ssh
    echo 'vagrant ALL=(ALL) NOPASSWD: ALL' >"$root/etc/sudoers.d/vagrant"
    echo '/dev/vda / ext4 defaults 0 1' >"$root/etc/fstab"
    # When the guest gets its name, ifupdown (of the public box) drops Vagrant's connection for longer than networkd.
    printf '[Match]\nName=eth0\n[Network]\nDHCP=yes\n' >"$root/etc/systemd/network/eth0.network"
    chroot "$root" systemctl --quiet enable systemd-networkd
    echo "nameserver $GATEWAY" >"$root/etc/resolv.conf"
    echo bookworm >"$root/etc/hostname"
    printf '127.0.0.1 localhost\n127.0.1.1 bookworm\n' >"$root/etc/hosts"
    rm -f "$root"/var/cache/apt/archives/*.deb
    # Installing is what takes longest under emulation: leave out what nobody reads, and waiting for the disk.
    printf '%s\n' force-unsafe-io path-exclude=/usr/share/{doc,man,locale,info}/* >"$root/etc/dpkg/dpkg.cfg.d/90quick"
    echo 'Acquire::Languages "none";' >"$root/etc/apt/apt.conf.d/90quick"
    printf '[install]\ncompile = no\n' >>"$root/etc/pip.conf" # Python compiles what is imported, pip all there is
    # The guest is started with this kernel from outside, so that its disk needs neither partitions nor a boot loader.
    cp -L "$root/vmlinuz" "$root/initrd.img" "$work/"
    mke2fs -q -t ext4 -d "$root" "$work/disk.raw" "$DISK"
    qemu-img convert -f raw -O qcow2 "$work/disk.raw" "$work/box.img"
    rm -rf "$root" "$work/disk.raw"
    printf '{"provider": "libvirt", "format": "qcow2", "virtual_size": %d}\n' "${DISK%G}" >"$work/metadata.json"
    tar -C "$work" -cf "$work/base.box" metadata.json box.img
    vagrant box add --name "$BOX" "$work/base.box"
    rm "$work/box.img" "$work/base.box"
    emulation_settings >"$VAGRANT_HOME/Vagrantfile"
}

# All that the test needs and the project's Vagrantfile does not: read by Vagrant before that one.
emulation_settings() {
    cat <<SETTINGS
Vagrant.configure("2") do |config|
  config.vm.boot_timeout = 600
  config.ssh.insert_key = false
  config.vm.provider "libvirt" do |lv|
    lv.driver = "qemu"
    lv.cpu_mode = "maximum"
    lv.graphics_type = "none"
    lv.disk_driver :cache => "unsafe"
    lv.kernel = "$work/vmlinuz"
    lv.initrd = "$work/initrd.img"
    lv.cmd_line = "root=/dev/vda rw console=ttyS0 net.ifnames=0 mitigations=off no5lvl"
  end
end
SETTINGS
}

start_libvirt() {
    mkdir -p /etc/libvirt /run/libvirt /var/{lib,cache,log}/libvirt/qemu
    # libvirt asks for this user even when it is told to be root; the package that makes it also starts services.
    getent passwd libvirt-qemu >/dev/null || {
        echo 'libvirt-qemu:x:64055:' >>/etc/group
        echo 'libvirt-qemu:x:64055:64055::/nonexistent:/usr/sbin/nologin' >>/etc/passwd
    }
    # As root there are no owners to change; without control groups nothing stays in /sys/fs/cgroup.
    printf '%s\n' 'user = "root"' 'group = "root"' 'cgroup_controllers = []' 'security_driver = "none"' \
        >/etc/libvirt/qemu.conf
    printf '%s\n' 'auth_unix_rw = "none"' 'auth_unix_ro = "none"' \
        'log_outputs = "3:file:/var/log/libvirt/libvirtd.log"' >/etc/libvirt/libvirtd.conf
    virtlogd --daemon
    libvirtd --daemon
    wait_for "libvirtd" test -S /run/libvirt/libvirt-sock
}

up() {
    start_libvirt
    vagrant validate
    vagrant up --provider=libvirt || {
        tail -n 20 /var/log/libvirt/libvirtd.log >&2
        return 1
    }
}

# smoke DATAPATH: run the experiment in the guest as a user would, and see that it ran on that datapath.
# One chain, because its caller goes on after a failure and with that turns "set -e" off.
smoke() {
    vagrant ssh --no-tty -c "cd /vagrant && ./run.sh experiments/smoke.yaml --backend emulation --datapath $1 --out results/runs/smoke-$1" &&
        vagrant ssh --no-tty -c "grep -o '\"datapath\": \"$1\"' /vagrant/results/runs/smoke-$1/calibration.json"
}

if [ "${1:-}" = --inside ]; then
    shift
    inside "$@"
else
    outside "$@"
fi
