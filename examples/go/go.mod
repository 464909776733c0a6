// SPDX-License-Identifier: MIT OR Apache-2.0
module example.com/read_client

go 1.18
