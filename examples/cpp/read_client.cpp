// SPDX-License-Identifier: MIT OR Apache-2.0
//
// read_client [--wrong-rkey] ADDRESS PORT
//
// Reads the memory that read_server offers and verifies it. The exit status is 0 only if
// every byte is correct.
#include <endian.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <stdexcept>
#include <string>
#include <string_view>

#include "verbs.hpp"

namespace {

using namespace std::chrono_literals;

constexpr auto step_limit = 60s;
constexpr std::size_t length_max = std::size_t{1} << 30;
constexpr std::size_t piece = std::size_t{1} << 20; // every port allows this much per read
constexpr int exit_usage = 2;

// The server's two messages, in network byte order.
struct region_message {
	std::uint64_t address;
	std::uint64_t length;
	std::uint32_t rkey;
	std::uint32_t reserved;
};
struct checksum_message {
	std::uint64_t fnv1a;
};

struct remote_memory {
	std::uint64_t address;
	std::size_t length;
	std::uint32_t rkey;
};

struct offer {
	remote_memory memory;
	std::uint64_t checksum;
};

// FNV-1a, 64 bit: any changed byte changes the result.
std::uint64_t fnv1a(const verbs::region &data)
{
	std::uint64_t hash = 0xcbf29ce484222325;
	std::for_each_n(data.data(), data.size(), [&hash](std::byte byte) {
		hash = (hash ^ std::to_integer<std::uint64_t>(byte)) * 0x100000001b3;
	});
	return hash;
}

void print_device(const verbs::connection &connection)
{
	char host[256] = "";
	if (gethostname(host, sizeof(host) - 1))
		verbs::throw_errno("gethostname");
	std::printf("client: device %s port %d on %s\n",
		    ibv_get_device_name(connection.id()->verbs->device),
		    connection.id()->port_num, host);
}

template <class Message>
Message receive(verbs::connection &connection, const char *what, const std::byte *from)
{
	Message message;
	if (connection.await_receive(what, step_limit).byte_len != sizeof(message))
		throw std::runtime_error(std::string(what) + ": the message has a wrong length");
	std::memcpy(&message, from, sizeof(message));
	return message;
}

// A message that finds no receive is rejected, so post these before connecting.
offer receive_offer(verbs::connection &connection)
{
	constexpr std::size_t first = sizeof(region_message), second = sizeof(checksum_message);
	verbs::region inbox(connection.id(), first + second);
	connection.post_receive(inbox, 0, first);
	connection.post_receive(inbox, first, second);
	connection.connect();

	const auto region =
		receive<region_message>(connection, "receive of the region", inbox.data());
	const auto checksum = receive<checksum_message>(connection, "receive of the checksum",
							inbox.data() + first);
	const remote_memory memory{be64toh(region.address), be64toh(region.length),
				   be32toh(region.rkey)};
	if (memory.length < 1 || memory.length > length_max)
		throw std::runtime_error("receive of the region: a bad length");
	std::printf("client: region 0x%" PRIx64 ", %zu bytes, rkey 0x%08" PRIx32 "\n",
		    memory.address, memory.length, memory.rkey);
	return {memory, be64toh(checksum.fnv1a)};
}

// Reads the pieces one after the other.
void read(verbs::connection &connection, verbs::region &target, const remote_memory &memory)
{
	using clock = std::chrono::steady_clock;
	const auto started = clock::now();
	int reads = 0;
	for (std::size_t offset = 0; offset < memory.length; offset += piece, ++reads) {
		connection.post_read(target, offset, std::min(piece, memory.length - offset),
				     memory.address + offset, memory.rkey);
		connection.await_send("RDMA read", step_limit);
	}
	const std::chrono::duration<double, std::micro> us = clock::now() - started;
	std::printf("client: read %zu bytes in %.0f us (%.1f MB/s), RDMA reads: %d\n",
		    memory.length, us.count(), static_cast<double>(memory.length) / us.count(),
		    reads);
}

void verify(const verbs::region &data, std::uint64_t expected)
{
	const std::uint64_t actual = fnv1a(data);
	if (actual != expected)
		throw std::runtime_error("NOT verified: the FNV-1a of the data is not the server's");
	std::printf("client: verified, FNV-1a of the data %016" PRIx64 " is the server's\n",
		    actual);
}

void fetch(const char *host, const char *port, bool wrong_rkey)
{
	verbs::connection connection(host, port, 1, 2);
	print_device(connection);
	offer offer = receive_offer(connection);
	if (wrong_rkey)
		offer.memory.rkey ^= 0xff;
	verbs::region target(connection.id(), offer.memory.length);
	read(connection, target, offer.memory);
	verify(target, offer.checksum);
}

} // namespace

int main(int argc, char **argv)
{
	const bool wrong_rkey = argc > 1 && std::string_view(argv[1]) == "--wrong-rkey";
	if (argc != (wrong_rkey ? 4 : 3)) {
		std::fprintf(stderr, "usage: read_client [--wrong-rkey] ADDRESS PORT\n");
		return exit_usage;
	}
	std::setvbuf(stdout, nullptr, _IOLBF, 0);
	try {
		fetch(argv[argc - 2], argv[argc - 1], wrong_rkey);
	} catch (const std::system_error &error) {
		std::fprintf(stderr, "client: %s (%s %d)\n", error.what(),
			     error.code().category() == verbs::completion_category()
				     ? "completion status"
				     : "errno",
			     error.code().value());
		return EXIT_FAILURE;
	} catch (const std::exception &error) {
		std::fprintf(stderr, "client: %s\n", error.what());
		return EXIT_FAILURE;
	}
	return EXIT_SUCCESS;
}
