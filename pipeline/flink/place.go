package flink

import (
	"encoding/binary"
	"fmt"
	"math/bits"
)

// Names returns n names that Flink distributes evenly over the subtasks of a keyed operator: name i to subtask i modulo
// parallelism. With arbitrary names, one subtask could get the work of two names and another none. Names are Beam keys
// of type string.
//
// Flink hashes the encoding of a key to one of maxParallelism key groups, and gives each subtask a range of groups
// (KeyGroupRangeAssignment).
func Names(n, parallelism, maxParallelism int) []string {
	names := make([]string, n)
	for i := range names {
		for salt := 0; ; salt++ {
			name := fmt.Sprintf("%d/%d", i, salt)
			if keyGroup(name, maxParallelism)*parallelism/maxParallelism == i%parallelism {
				names[i] = name
				break
			}
		}
	}
	return names
}

func keyGroup(key string, maxParallelism int) int {
	encoded := append(binary.AppendUvarint(nil, uint64(len(key))), key...)
	return int(murmur(bufferHash(encoded))) % maxParallelism
}

// bufferHash is java.nio.ByteBuffer.hashCode.
func bufferHash(b []byte) int32 {
	h := int32(1)
	for i := len(b) - 1; i >= 0; i-- {
		h = 31*h + int32(int8(b[i]))
	}
	return h
}

// murmur is org.apache.flink.util.MathUtils.murmurHash: MurmurHash3 of one int, not negative.
func murmur(code int32) int32 {
	h := uint32(code) * 0xcc9e2d51
	h = bits.RotateLeft32(h, 15) * 0x1b873593
	h = bits.RotateLeft32(h, 13)*5 + 0xe6546b64
	h ^= 4
	h ^= h >> 16
	h *= 0x85ebca6b
	h ^= h >> 13
	h *= 0xc2b2ae35
	h ^= h >> 16
	signed := int32(h)
	if signed == -1<<31 {
		return 0
	}
	return max(signed, -signed)
}
