// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Connections, registered memory and completions as C++17 objects: what is acquired is
// released, in the right order, and what fails throws std::system_error.
#pragma once

#include <netdb.h>
#include <rdma/rdma_verbs_ext.h>

#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <iostream>
#include <memory>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

namespace verbs {

// --- errors ----------------------------------------------------------------------------

[[noreturn]] inline void throw_errno(const char *call)
{
	throw std::system_error(errno, std::generic_category(), call);
}

// The status of a completion as an error code. Its texts are those of the library; it
// compares equal to the nearest std::errc, a wrong rkey to permission_denied.
class completion_category_t final : public std::error_category {
public:
	const char *name() const noexcept override { return "completion"; }

	std::string message(int status) const override
	{
		const ibv_wc wc = completion(status);
		return rdmax_wc_strerror(&wc);
	}

	std::error_condition default_error_condition(int status) const noexcept override
	{
		const ibv_wc wc = completion(status);
		return {rdmax_wc_errno(&wc), std::generic_category()};
	}

private:
	static ibv_wc completion(int status) noexcept
	{
		ibv_wc wc{};
		wc.status = static_cast<ibv_wc_status>(status);
		return wc;
	}
};

inline const std::error_category &completion_category()
{
	static const completion_category_t category;
	return category;
}

inline void throw_unless_success(const ibv_wc &wc, const char *what)
{
	if (wc.status != IBV_WC_SUCCESS)
		throw std::system_error(wc.status, completion_category(), what);
}

// --- what is acquired --------------------------------------------------------------------

// A function of C as the deleter of std::unique_ptr.
template <auto function> struct releases {
	template <class T> void operator()(T *object) const noexcept { function(object); }
};

using address_info = std::unique_ptr<rdma_addrinfo, releases<rdma_freeaddrinfo>>;
using endpoint = std::unique_ptr<rdma_cm_id, releases<rdma_destroy_ep>>;

inline address_info resolve(const char *host, const char *port)
{
	rdma_addrinfo hints{}, *found = nullptr;
	hints.ai_port_space = RDMA_PS_TCP;
	// Either -1 and errno, or one of getaddrinfo's codes.
	const int code = rdma_getaddrinfo(host, port, &hints, &found);
	if (code == -1)
		throw_errno("rdma_getaddrinfo");
	if (code)
		throw std::runtime_error(std::string("rdma_getaddrinfo: ") + gai_strerror(code));
	return address_info(found);
}

// Memory that is registered for its lifetime; neither movable nor copyable.
class region {
public:
	// For messages, and as the destination of RDMA reads. The peer has no access to it,
	// except on iWARP, where the response to a read arrives as a write by the peer.
	region(rdma_cm_id *id, std::size_t length) : memory_(length)
	{
		const bool iwarp = id->verbs->device->transport_type == IBV_TRANSPORT_IWARP;
		mr_ = iwarp ? rdma_reg_write(id, data(), length) : rdma_reg_msgs(id, data(), length);
		if (!mr_)
			throw_errno(iwarp ? "rdma_reg_write" : "rdma_reg_msgs");
	}
	region(const region &) = delete;
	region &operator=(const region &) = delete;

	~region()
	{
		// A device might go on to write into memory that is freed.
		if (rdma_dereg_mr(mr_)) {
			std::cerr << "rdma_dereg_mr: " << std::generic_category().message(errno) << '\n';
			std::terminate();
		}
	}

	std::byte *data() noexcept { return memory_.data(); }
	const std::byte *data() const noexcept { return memory_.data(); }
	std::size_t size() const noexcept { return memory_.size(); }
	ibv_mr *mr() const noexcept { return mr_; }

private:
	std::vector<std::byte> memory_;
	ibv_mr *mr_;
};

// One side of a reliable connection. Regions are made with its id(), and end before it.
class connection {
public:
	// The arguments limit how many sends and receives may be outstanding.
	connection(const char *host, const char *port, std::uint32_t sends, std::uint32_t receives)
	{
		ibv_qp_init_attr attr{};
		attr.cap = {sends, receives, 1, 1, 0};
		attr.qp_type = IBV_QPT_RC;
		const address_info address = resolve(host, port);
		rdma_cm_id *id = nullptr;
		if (rdma_create_ep(&id, address.get(), nullptr, &attr))
			throw_errno("rdma_create_ep");
		id_.reset(id);
	}
	connection(connection &&) = default;
	connection &operator=(connection &&) = delete;

	rdma_cm_id *id() const noexcept { return id_.get(); }

	void connect()
	{
		// As many concurrent RDMA reads as both devices allow. Not 7 retries: soft-RoCE
		// takes that as forever.
		rdma_conn_param param{};
		param.responder_resources = RDMA_MAX_RESP_RES;
		param.initiator_depth = RDMA_MAX_INIT_DEPTH;
		param.retry_count = 6;
		if (rdma_connect(id(), &param))
			throw_errno("rdma_connect");
		connected_.reset(id());
	}

	void post_receive(region &to, std::size_t offset, std::size_t length)
	{
		if (rdma_post_recv(id(), nullptr, to.data() + offset, length, to.mr()))
			throw_errno("rdma_post_recv");
	}

	void post_read(region &to, std::size_t offset, std::size_t length, std::uint64_t address,
		       std::uint32_t rkey)
	{
		if (rdma_post_read(id(), nullptr, to.data() + offset, length, to.mr(),
				   IBV_SEND_SIGNALED, address, rkey))
			throw_errno("rdma_post_read");
	}

	// Wait for the next completion of a queue; `what` names it in an error.
	ibv_wc await_send(const char *what, std::chrono::milliseconds limit)
	{
		return await(rdmax_get_send_comp, what, limit);
	}
	ibv_wc await_receive(const char *what, std::chrono::milliseconds limit)
	{
		return await(rdmax_get_recv_comp, what, limit);
	}

private:
	ibv_wc await(int (*get)(rdma_cm_id *, ibv_wc *, int), const char *what,
		     std::chrono::milliseconds limit)
	{
		ibv_wc wc;
		const int found = get(id(), &wc, static_cast<int>(limit.count()));
		if (found < 0)
			throw_errno(what);
		if (!found)
			throw std::system_error(ETIMEDOUT, std::generic_category(), what);
		throw_unless_success(wc, what);
		return wc;
	}

	// Released in reverse: disconnected first, then destroyed.
	endpoint id_;
	std::unique_ptr<rdma_cm_id, releases<rdma_disconnect>> connected_;
};

} // namespace verbs
