// The store that rank 0 serves to the other ranks, over a socket of one machine or over TCP.
//
// Both ends prove that they know the job's key before anything else; everything that follows is sealed with keys of the
// connection (sealed_channel.hpp). On one machine the system says which user is at
// the other end, and only this process's own is served. Nobody can connect any more once all ranks have met.
// Threads: any, as of Store.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include <cohort/host/job_secret.hpp>
#include <cohort/host/store.hpp>

namespace cohort::host {

struct StoreAddress {
  std::string local = {};  ///< not empty: the name of a socket of this machine, which begins no path
  std::string host = {};   ///< a name or an address
  int port = 0;
};

/// Returns the key of jobs without a secret, which everybody knows.
Key public_key();

/// Listens on a socket of this machine and returns its descriptor. Throws UserError if the name is taken.
int listen_locally(const std::string& name);

/// Serves a store on a listening socket, which it owns from now on. `warn` gets sentences about strangers, on a thread
/// of the server's own.
std::unique_ptr<Store> serve_store(int descriptor, const Key& key, std::function<void(const std::string&)> warn);

/// Connects to a store, waiting until it is served. `timeout` limits every later call, too. Throws PeerFailed if nobody
/// answers in time, UserError if nobody knows the host's name, or if the server has another key.
std::unique_ptr<Store> connect_to_store(const StoreAddress& address, const Key& key, std::chrono::nanoseconds timeout);

}  // namespace cohort::host
