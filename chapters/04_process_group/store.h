// A store: a dictionary that all ranks share. It is how they find each other, before any other connection
// exists.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "chapters/04_process_group/socket.h"

namespace miniddp {

/// A request that the store refused, or an answer that makes no sense.
class DistStoreError : public Error {
 public:
  using Error::Error;
};

/// Keys are text, values are bytes; an empty value is a value. Semantics are torch.distributed.Store's.
/// One object serves one thread at a time (calls of several threads queue); clone() gives another thread its
/// own connection. Every method throws DistNetworkError if the store has gone.
class Store {
 public:
  virtual ~Store() = default;

  /// Sets or overwrites.
  virtual void set(const std::string& key, const std::string& value) = 0;
  /// Waits until the key exists. Throws TimeoutError, naming the key, after timeout().
  virtual std::string get(const std::string& key) = 0;
  /// Adds to a number kept as decimal text, atomically; a missing key counts as 0. Returns the sum. Throws
  /// DistStoreError if the value is not a number.
  virtual int64_t add(const std::string& key, int64_t amount) = 0;
  /// Waits until all keys exist. Throws TimeoutError, naming the keys that are missing.
  virtual void wait(const std::vector<std::string>& keys, Milliseconds timeout) = 0;
  void wait(const std::vector<std::string>& keys) { wait(keys, timeout()); }
  /// True if all keys exist now.
  virtual bool check(const std::vector<std::string>& keys) = 0;
  /// Sets `desired` if the value is `expected`, or if the key is missing and `expected` is empty. Returns the
  /// value afterwards; `expected` if the key is missing and stays so.
  virtual std::string compare_set(const std::string& key, const std::string& expected,
                                  const std::string& desired) = 0;
  /// True if the key existed.
  virtual bool delete_key(const std::string& key) = 0;
  /// Keys of the whole store. A TcpStore's own "init/", which counts the clients, is one of them.
  virtual int64_t num_keys() = 0;

  /// The same store through a connection of its own.
  virtual std::shared_ptr<Store> clone() = 0;

  Milliseconds timeout() const { return timeout_; }
  void set_timeout(Milliseconds timeout) { timeout_ = timeout; }

 private:
  Milliseconds timeout_{60'000};
};

/// A part of another store: key "a" of PrefixStore("pre", s) is key "pre/a" of s.
class PrefixStore : public Store {
 public:
  PrefixStore(std::string prefix, std::shared_ptr<Store> store);

  using Store::wait;
  void set(const std::string& key, const std::string& value) override;
  std::string get(const std::string& key) override;
  int64_t add(const std::string& key, int64_t amount) override;
  void wait(const std::vector<std::string>& keys, Milliseconds timeout) override;
  bool check(const std::vector<std::string>& keys) override;
  std::string compare_set(const std::string& key, const std::string& expected,
                          const std::string& desired) override;
  bool delete_key(const std::string& key) override;
  int64_t num_keys() override;
  std::shared_ptr<Store> clone() override;

 private:
  std::string join(const std::string& key) const { return prefix_ + "/" + key; }
  std::vector<std::string> join(const std::vector<std::string>& keys) const;

  std::string prefix_;
  std::shared_ptr<Store> store_;
};

}  // namespace miniddp
