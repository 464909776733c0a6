// SPDX-License-Identifier: MIT OR Apache-2.0

package main

// #cgo pkg-config: librdma_verbs
// #include <netdb.h>
// #include <stdlib.h>
// #include <rdma/rdma_verbs_ext.h>
import "C"

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
	"unsafe"
)

// In this file "_, err := C.f()" gets errno: cgo reads it on the thread of the call, before
// the goroutine can move to another. It is meaningful only if the result indicates failure.

// CompletionError is a failed work request. It unwraps to the
// nearest errno, so that errors.Is(err, fs.ErrPermission) is true for a wrong rkey.
type CompletionError struct {
	Op     string
	Status int
	Text   string
	Errno  syscall.Errno
}

func (e *CompletionError) Error() string {
	return fmt.Sprintf("%s: %s (completion status %d)", e.Op, e.Text, e.Status)
}

func (e *CompletionError) Unwrap() error { return e.Errno }

// Conn is one side of a reliable connection: an rdma_cm_id with a queue pair.
type Conn struct {
	id        *C.struct_rdma_cm_id
	connected bool
	regions   []*Region
}

// NewConn resolves the address and creates the queue pair; sends and recvs limit how many
// requests may be outstanding. Receives can be posted before Connect.
func NewConn(host, port string, sends, recvs int) (*Conn, error) {
	node, service := C.CString(host), C.CString(port)
	defer C.free(unsafe.Pointer(node))
	defer C.free(unsafe.Pointer(service))

	var info *C.struct_rdma_addrinfo
	hints := C.struct_rdma_addrinfo{ai_port_space: C.RDMA_PS_TCP}
	// Either -1 and errno, or one of getaddrinfo's codes.
	if code, err := C.rdma_getaddrinfo(node, service, &hints, &info); code == -1 {
		return nil, os.NewSyscallError("rdma_getaddrinfo", err)
	} else if code != 0 {
		return nil, fmt.Errorf("rdma_getaddrinfo: %s", C.GoString(C.gai_strerror(code)))
	}
	defer C.rdma_freeaddrinfo(info)

	attr := C.struct_ibv_qp_init_attr{qp_type: C.IBV_QPT_RC}
	attr.cap.max_send_wr = C.uint32_t(sends)
	attr.cap.max_recv_wr = C.uint32_t(recvs)
	attr.cap.max_send_sge = 1
	attr.cap.max_recv_sge = 1
	conn := new(Conn)
	if result, err := C.rdma_create_ep(&conn.id, info, nil, &attr); result != 0 {
		return nil, os.NewSyscallError("rdma_create_ep", err)
	}
	return conn, nil
}

// Device returns the name of the RDMA device and the port number.
func (c *Conn) Device() (string, int) {
	return C.GoString(&c.id.verbs.device.name[0]), int(c.id.port_num)
}

// Connect waits until the connection is established.
func (c *Conn) Connect() error {
	// As many concurrent RDMA reads as both devices allow. Not 7 retries: soft-RoCE takes
	// that as forever.
	param := C.struct_rdma_conn_param{
		responder_resources: C.RDMA_MAX_RESP_RES,
		initiator_depth:     C.RDMA_MAX_INIT_DEPTH,
		retry_count:         6,
	}
	if result, err := C.rdma_connect(c.id, &param); result != 0 {
		return os.NewSyscallError("rdma_connect", err)
	}
	c.connected = true
	return nil
}

// Close disconnects, so that no device accesses the memory, then releases the regions,
// then the rest. It returns the first error.
func (c *Conn) Close() (err error) {
	if c.connected {
		if result, errno := C.rdma_disconnect(c.id); result != 0 {
			err = os.NewSyscallError("rdma_disconnect", errno)
		}
	}
	for _, region := range c.regions {
		if closeErr := region.close(); err == nil {
			err = closeErr
		}
	}
	C.rdma_destroy_ep(c.id)
	return err
}

// Region is registered memory. A device writes to it without Go's knowledge, so it must
// neither move nor be collected: it is allocated by C, and Data is valid until the
// connection is closed.
type Region struct {
	Data []byte
	mr   *C.struct_ibv_mr
}

// NewRegion allocates memory for sends, receives, and as the destination of RDMA reads. The
// peer has no access to it, except on iWARP, where the response to a read arrives as a
// write by the peer.
func (c *Conn) NewRegion(length int) (*Region, error) {
	memory := C.calloc(1, C.size_t(length))
	if memory == nil {
		return nil, os.NewSyscallError("calloc", syscall.ENOMEM)
	}
	var mr *C.struct_ibv_mr
	var err error
	if c.id.verbs.device.transport_type == C.IBV_TRANSPORT_IWARP {
		mr, err = C.rdma_reg_write(c.id, memory, C.size_t(length))
	} else {
		mr, err = C.rdma_reg_msgs(c.id, memory, C.size_t(length))
	}
	if mr == nil {
		C.free(memory)
		return nil, os.NewSyscallError("registering memory", err)
	}
	region := &Region{unsafe.Slice((*byte)(memory), length), mr}
	c.regions = append(c.regions, region)
	return region, nil
}

func (r *Region) close() error {
	memory := r.mr.addr
	if result, err := C.rdma_dereg_mr(r.mr); result != 0 {
		// A device may still use it: leak it rather than free it.
		return os.NewSyscallError("rdma_dereg_mr", err)
	}
	C.free(memory)
	r.Data = nil
	return nil
}

// part returns the address of a part of the region; it panics if out of range, like slices.
func (r *Region) part(offset, length int) unsafe.Pointer {
	return unsafe.Pointer(&r.Data[offset : offset+length][0])
}

// PostRecv posts a receive into a part of the region.
func (c *Conn) PostRecv(r *Region, offset, length int) error {
	result, err := C.rdma_post_recv(c.id, nil, r.part(offset, length), C.size_t(length), r.mr)
	if result != 0 {
		return os.NewSyscallError("rdma_post_recv", err)
	}
	return nil
}

// PostRead posts an RDMA read of the peer's memory into a part of the region.
func (c *Conn) PostRead(r *Region, offset, length int, remoteAddr uint64, rkey uint32) error {
	result, err := C.rdma_post_read(c.id, nil, r.part(offset, length), C.size_t(length), r.mr,
		C.IBV_SEND_SIGNALED, C.uint64_t(remoteAddr), C.uint32_t(rkey))
	if result != 0 {
		return os.NewSyscallError("rdma_post_read", err)
	}
	return nil
}

// AwaitSend waits for the next completion of the send queue. op names it in errors.
func (c *Conn) AwaitSend(op string, timeout time.Duration) error {
	_, err := await(op, timeout, func(wc *C.struct_ibv_wc, ms C.int) (C.int, error) {
		result, err := C.rdmax_get_send_comp(c.id, wc, ms)
		return result, err
	})
	return err
}

// AwaitRecv waits for the next message, and returns its length. op names it in errors.
func (c *Conn) AwaitRecv(op string, timeout time.Duration) (int, error) {
	wc, err := await(op, timeout, func(wc *C.struct_ibv_wc, ms C.int) (C.int, error) {
		result, err := C.rdmax_get_recv_comp(c.id, wc, ms)
		return result, err
	})
	return int(wc.byte_len), err
}

// await calls get until it has a completion. Signals, which the Go runtime uses, interrupt
// a wait with EINTR.
func await(op string, timeout time.Duration, get func(*C.struct_ibv_wc, C.int) (C.int, error)) (
	wc C.struct_ibv_wc, err error) {
	for deadline := time.Now().Add(timeout); ; {
		left := time.Until(deadline)
		if left < 0 {
			left = 0
		}
		result, err := get(&wc, C.int(left.Milliseconds()))
		switch {
		case result == 1:
			return wc, check(op, &wc)
		case result == 0:
			return wc, fmt.Errorf("%s: %w", op, os.ErrDeadlineExceeded)
		case !errors.Is(err, syscall.EINTR):
			return wc, fmt.Errorf("%s: waiting for the completion: %w", op, err)
		}
	}
}

// check turns a failed completion into an error.
func check(op string, wc *C.struct_ibv_wc) error {
	if wc.status == C.IBV_WC_SUCCESS {
		return nil
	}
	return &CompletionError{
		Op:     op,
		Status: int(wc.status),
		Text:   C.GoString(C.rdmax_wc_strerror(wc)),
		Errno:  syscall.Errno(C.rdmax_wc_errno(wc)),
	}
}
