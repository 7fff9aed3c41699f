# SPDX-License-Identifier: BSD-2-Clause
"""What an MPI program does: messages of all sizes around a ring, to everybody at once, sums, one-sided operations."""
from mpi4py import MPI

SIZES = (1, 100, 4096, 10000, 65536, 1 << 20, 8 << 20)
world = MPI.COMM_WORLD
rank, size = world.rank, world.size
before, behind = (rank - 1) % size, (rank + 1) % size


def pattern(owner, length, turn):
    return bytes((owner * 37 + turn * 11 + i) & 0xff for i in range(251)) * (length // 251 + 1)


def ring():
    for length in SIZES:
        received = bytearray(length)
        for turn in range(3 if length > 65536 else 30):
            world.Sendrecv([pattern(rank, length, turn), length, MPI.BYTE], behind, turn, [received, length, MPI.BYTE], before, turn)
            assert received == pattern(before, length, turn)[:length], "%d bytes, turn %d" % (length, turn)


def sums():
    for turn in range(200):
        assert world.allreduce(rank + turn) == size * (size - 1) // 2 + size * turn


def everybody():
    for turn in range(20):
        found = world.alltoall([(rank, to, turn, bytes(20000)) for to in range(size)])
        assert found == [(other, rank, turn, bytes(20000)) for other in range(size)]


def one_sided():
    memory = MPI.Win.Allocate(8 * 200, 8, comm=world)
    words = memoryview(memory.tomemory()).cast("B").cast("q")
    for i in range(200):
        words[i] = 0
    memory.Fence()
    own = bytearray((rank + 1).to_bytes(8, "little"))
    for i in range(100):
        memory.Put([own, MPI.LONG], behind, i)
        memory.Accumulate([own, MPI.LONG], 0, 100)
    memory.Fence()
    assert list(words[:100]) == [before + 1] * 100
    assert rank or words[100] == 100 * size * (size + 1) // 2
    memory.Lock_all()
    one, result = bytearray((1).to_bytes(8, "little")), bytearray(8)
    for _ in range(50):
        memory.Fetch_and_op([one, MPI.LONG], [result, MPI.LONG], 0, 101)
        memory.Flush(0)
    memory.Unlock_all()
    world.Barrier()
    assert rank or words[101] == 50 * size
    words.release()
    memory.Free()


for step in (ring, sums, everybody, one_sided):
    step()
if rank == 0:
    print("%d processes agree" % size)
