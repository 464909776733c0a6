// SPDX-License-Identifier: MIT OR Apache-2.0

// Read_client reads the memory that read_server offers and verifies every byte.
//
// Usage: read_client [-wrong-rkey] ADDRESS PORT
package main

import (
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"hash/fnv"
	"os"
	"time"
)

const (
	regionSize   = 24 // address, length, rkey, 0; in network byte order
	checksumSize = 8  // FNV-1a of the memory
	lengthMax    = 1 << 30
	piece        = 1 << 20 // every port allows this much per read
	timeout      = time.Minute
)

// remote is the server's memory, from its message.
type remote struct {
	addr   uint64
	length int
	rkey   uint32
}

func main() {
	wrongRkey := flag.Bool("wrong-rkey", false, "read with a key that the server did not give")
	flag.Usage = func() {
		fmt.Fprintln(os.Stderr, "usage: read_client [-wrong-rkey] ADDRESS PORT")
	}
	flag.Parse()
	if flag.NArg() != 2 {
		flag.Usage()
		os.Exit(2)
	}
	if err := fetch(flag.Arg(0), flag.Arg(1), *wrongRkey); err != nil {
		fmt.Fprintln(os.Stderr, "client:", err)
		os.Exit(1)
	}
}

// fetch connects, receives both messages, and reads the memory they describe.
func fetch(host, port string, wrongRkey bool) (err error) {
	conn, err := NewConn(host, port, 1, 2)
	if err != nil {
		return err
	}
	defer func() {
		if closeErr := conn.Close(); err == nil {
			err = closeErr
		}
	}()
	if err := printDevice(conn); err != nil {
		return err
	}
	inbox, err := conn.NewRegion(regionSize + checksumSize)
	if err != nil {
		return err
	}
	memory, checksum, err := receive(conn, inbox)
	if err != nil {
		return err
	}
	if wrongRkey {
		memory.rkey ^= 0xff
	}
	target, err := conn.NewRegion(memory.length)
	if err != nil {
		return err
	}
	if err := read(conn, target, memory); err != nil {
		return err
	}
	return verify(target.Data, checksum)
}

func printDevice(conn *Conn) error {
	host, err := os.Hostname()
	if err != nil {
		return err
	}
	device, port := conn.Device()
	fmt.Printf("client: device %s port %d on %s\n", device, port, host)
	return nil
}

// receive connects and receives both messages. A message that finds no receive is rejected,
// so receives are posted before connecting.
func receive(conn *Conn, inbox *Region) (memory remote, checksum uint64, err error) {
	if err := conn.PostRecv(inbox, 0, regionSize); err != nil {
		return memory, 0, err
	}
	if err := conn.PostRecv(inbox, regionSize, checksumSize); err != nil {
		return memory, 0, err
	}
	if err := conn.Connect(); err != nil {
		return memory, 0, err
	}
	if err := receiveOne(conn, "receive of the region", regionSize); err != nil {
		return memory, 0, err
	}
	if err := receiveOne(conn, "receive of the checksum", checksumSize); err != nil {
		return memory, 0, err
	}
	memory, err = parseRegion(inbox.Data)
	return memory, binary.BigEndian.Uint64(inbox.Data[regionSize:]), err
}

func receiveOne(conn *Conn, op string, size int) error {
	length, err := conn.AwaitRecv(op, timeout)
	if err == nil && length != size {
		err = fmt.Errorf("%s: the message has a wrong length", op)
	}
	return err
}

func parseRegion(message []byte) (remote, error) {
	addr := binary.BigEndian.Uint64(message)
	length := binary.BigEndian.Uint64(message[8:])
	rkey := binary.BigEndian.Uint32(message[16:])
	if length < 1 || length > lengthMax {
		return remote{}, errors.New("receive of the region: a bad length")
	}
	fmt.Printf("client: region %#x, %d bytes, rkey 0x%08x\n", addr, length, rkey)
	return remote{addr, int(length), rkey}, nil
}

// read reads the pieces one after the other.
func read(conn *Conn, target *Region, memory remote) error {
	started, reads := time.Now(), 0
	for offset := 0; offset < memory.length; offset += piece {
		length := memory.length - offset
		if length > piece {
			length = piece
		}
		err := conn.PostRead(target, offset, length, memory.addr+uint64(offset), memory.rkey)
		if err != nil {
			return err
		}
		if err := conn.AwaitSend("RDMA read", timeout); err != nil {
			return err
		}
		reads++
	}
	us := float64(time.Since(started).Nanoseconds()) / 1e3
	fmt.Printf("client: read %d bytes in %.0f us (%.1f MB/s), RDMA reads: %d\n",
		memory.length, us, float64(memory.length)/us, reads)
	return nil
}

func verify(data []byte, expected uint64) error {
	hash := fnv.New64a()
	hash.Write(data)
	if actual := hash.Sum64(); actual != expected {
		return fmt.Errorf("NOT verified: FNV-1a of the data is %016x, the server's is %016x",
			actual, expected)
	}
	fmt.Printf("client: verified, FNV-1a of the data %016x is the server's\n", expected)
	return nil
}
