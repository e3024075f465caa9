# SPDX-License-Identifier: Apache-2.0
"""A real Slurm on loopback: munged, slurmctld and a slurmd for each node, in a temporary folder.

What it takes to run without systemd, cgroups, accounting or several machines:
- slurmd -N NAME with a port and a spool folder of its own for each node (multiple slurmd);
- ProctrackType=proctrack/linuxproc and TaskPlugin=task/none, because there may be no cgroups;
- SlurmdParameters=config_overrides, because the nodes claim processors as they like;
- AuthInfo with the socket of our own munged, whose key is in the folder;
- everything runs as the user of the test.
"""

import getpass
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "scancel", "sinfo")
NODES = ("n1", "n2", "n3")
PATH = os.environ["PATH"] + ":/usr/sbin:/sbin"

CONFIG = """
ClusterName=lab
SlurmctldHost={host}(127.0.0.1)
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
SlurmctldPort={port}
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmdSpoolDir={folder}/spool-%n
StateSaveLocation={folder}/state
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=sched_interval=1,batch_sched_delay=0,bf_interval=1
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
JobCompType=jobcomp/none
SlurmdParameters=config_overrides
ReturnToService=2
SlurmdTimeout=5
KillWait=2
"""


def missing():
    """The first missing program, or None."""
    return next((p for p in PROGRAMS if not shutil.which(p, path=PATH)), None)


def free_ports(n):
    """Slurm takes no port 0; these were free a moment ago."""
    sockets = [socket.socket() for _ in range(n)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


class Cluster:
    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="moescope-slurm-", dir="/tmp")
        self.processes = []
        self.nodes = {}
        os.chmod(self.folder, 0o755)  # munged insists
        os.mkdir(self.path("state"))
        self.config = self.path("slurm.conf")
        self.env = dict(os.environ, SLURM_CONF=self.config, PATH=PATH)
        ports = free_ports(len(NODES) + 1)
        host = socket.gethostname()
        with open(self.config, "w", encoding="ascii") as file:
            file.write(CONFIG.format(host=host, user=getpass.getuser(), folder=self.folder,
                                     port=ports[0]))
            for name, port in zip(NODES, ports[1:]):
                file.write(f"NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} "
                           "CPUs=2 State=UNKNOWN\n")
            file.write(f"PartitionName=lab Nodes={','.join(NODES)} Default=YES MaxTime=INFINITE "
                       "State=UP\n")
        with open(os.open(self.path("munge.key"), os.O_WRONLY | os.O_CREAT, 0o600), "wb") as file:
            file.write(os.urandom(1024))
        self.start("munged", "--foreground", "--force", f"--key-file={self.path('munge.key')}",
                   f"--socket={self.path('munge.socket')}", f"--pid-file={self.path('munged.pid')}",
                   f"--log-file={self.path('munged.log')}",
                   f"--seed-file={self.path('munge.seed')}")
        self.wait(lambda: os.path.exists(self.path("munge.socket")), "munged")
        self.start("slurmctld", "-D", "-i", "-f", self.config)
        for name in NODES:
            self.start_node(name)
        self.wait(lambda: len(self.idle()) == len(NODES), "the nodes")

    def path(self, name):
        return os.path.join(self.folder, name)

    def start(self, *argv):
        with open(self.path(argv[0] + ".out"), "ab") as log:
            process = subprocess.Popen(argv, env=self.env, stdin=subprocess.DEVNULL, stdout=log,
                                       stderr=log, start_new_session=True)
        self.processes.append(process)
        return process

    def start_node(self, name):
        self.nodes[name] = self.start("slurmd", "-D", "-N", name, "-f", self.config)

    def wait(self, condition, what, seconds=60):
        end = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > end:
                raise RuntimeError(f"waited in vain for {what}; logs are in {self.folder}")
            time.sleep(0.05)

    def run(self, *argv):
        return subprocess.run(argv, env=self.env, text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, check=False).stdout

    def idle(self):
        return self.run("sinfo", "--noheader", "--Node", "--states=idle", "--format=%N").split()

    def live(self):
        """Tasks that wait or run."""
        return self.run("squeue", "--noheader", "--array", "--format=%i %T").splitlines()

    def kill_node(self, name):
        """The machine is gone: its daemon, its task supervisors, and the tasks."""
        tasks = [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc")))
                 if self.task_of(pid, name)]
        keepers = {parent for parent in map(parent_of, tasks) if comm(parent) == "slurmstepd"}
        for pid in [self.nodes[name].pid, *keepers, *tasks]:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.nodes.pop(name).wait()
        return len(tasks)

    def task_of(self, pid, name):
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                variables = file.read().split(b"\0")
        except OSError:
            return False
        return f"SLURMD_NODENAME={name}".encode() in variables and \
            f"SLURM_CONF={self.config}".encode() in variables

    def stop(self):
        self.run("scancel", "--state=PENDING", f"--user={getpass.getuser()}")
        for name in list(self.nodes):
            self.kill_node(name)
        for process in reversed(self.processes):
            if process.poll() is None:
                process.terminate()
                try:
                    process.wait(10)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


def parent_of(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return int(file.read().rsplit(")", 1)[1].split()[1])
    except OSError:
        return 0


def comm(pid):
    try:
        with open(f"/proc/{pid}/comm", encoding="utf-8", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return ""
