// Adapts our store to c10d's store interface, with time limits.
#include "runtime/transport/internal/gloo_group.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <future>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <typeinfo>

#include "runtime/transport/internal/no_broken_pipes.h"

namespace rannc::runtime {

namespace {

using Bytes = std::vector<uint8_t>;
constexpr std::chrono::milliseconds kRetry{5};

template <class T>
T need(Result<T> result) {
  if (!result.ok()) throw std::runtime_error(result.diagnostic().message);
  return *std::move(result);
}

/// Throws if the store is lost or a key is not set within the time-out.
class GroupStore final : public c10d::Store {
 public:
  GroupStore(StoreClient& client, std::chrono::milliseconds timeout) : c10d::Store(timeout), client_(client) {}

  c10::intrusive_ptr<c10d::Store> clone() override { return c10::make_intrusive<GroupStore>(client_, timeout_); }
  void set(const std::string& key, const Bytes& value) override {
    if (const Result<void> done = client_.set(key, {value.begin(), value.end()}); !done.ok()) {
      throw std::runtime_error(done.diagnostic().message);
    }
  }
  Bytes get(const std::string& key) override {
    const std::string value = await(key, timeout_);
    return {value.begin(), value.end()};
  }
  int64_t add(const std::string& key, int64_t value) override { return need(client_.add(key, value)); }
  bool check(const std::vector<std::string>& keys) override {
    return std::all_of(keys.begin(), keys.end(),
                       [this](const auto& key) { return need(client_.get(key)).has_value(); });
  }
  void wait(const std::vector<std::string>& keys) override { wait(keys, timeout_); }
  void wait(const std::vector<std::string>& keys, const std::chrono::milliseconds& timeout) override {
    for (const std::string& key : keys) await(key, std::min(timeout, timeout_));
  }
  bool deleteKey(const std::string&) override { throw std::logic_error("keys are never deleted"); }
  int64_t getNumKeys() override { throw std::logic_error("keys are never counted"); }

 private:
  std::string await(const std::string& key, std::chrono::milliseconds timeout) {
    for (RunningClock clock; clock.now() < timeout; std::this_thread::sleep_for(kRetry)) {
      if (auto value = need(client_.get(key))) return *std::move(value);
    }
    throw std::runtime_error(fmt::format("waited {} ms for another worker to connect", timeout.count()));
  }

  StoreClient& client_;
};

Result<uint16_t> exchange_port(const Rendezvous& where, uint16_t own) {
  c10d::TCPStoreOptions options;
  options.port = where.port;
  options.waitWorkers = false;
  options.timeout = where.timeout;
  const std::string key = "rannc/port/" + where.torch_round;
  try {
    c10d::TCPStore store(where.host, options);
    if (where.rank == 0) {
      const std::string text = std::to_string(own);
      static_cast<c10d::Store&>(store).set(key, Bytes(text.begin(), text.end()));
      return own;
    }
    const Bytes text = store.get(key);
    const std::string digits(text.begin(), text.end());
    uint16_t port = 0;
    const auto [end, status] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
    if (status == std::errc() && end == digits.data() + digits.size()) return port;
    return error(fmt::format("torchrun's store has '{}' as the port of worker 0", digits));
  } catch (const std::exception& failed) {
    return error("worker 0 did not publish its port in torchrun's store: " + plain(failed));
  }
}

}  // namespace

GlooGroup make_gloo_group(StoreClient& client, const Rendezvous& where) {
  const NoBrokenPipes guard;  // Gloo's threads inherit it
  auto options = c10d::ProcessGroupGloo::Options::create(where.timeout);
  const std::string address = where.interface_address.empty()
                                  ? client.local_address()
                                  : need(resolve(where.interface_address, 0, where.timeout)).front().host();
  options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname(address));
  return c10::make_intrusive<c10d::ProcessGroupGloo>(c10::make_intrusive<GroupStore>(client, where.timeout),
                                                     static_cast<int>(where.rank), static_cast<int>(where.workers),
                                                     options);
}

// Runs in a thread that is abandoned if the store does not answer, because LibTorch's client waits without a limit.
Result<uint16_t> port_by_torch_store(const Rendezvous& where, uint16_t own) {
  auto promise = std::make_shared<std::promise<Result<uint16_t>>>();
  auto future = promise->get_future();
  std::thread([promise, where, own] { promise->set_value(exchange_port(where, own)); }).detach();
  if (future.wait_for(where.timeout + std::chrono::seconds(1)) != std::future_status::ready) {
    return error(fmt::format("torchrun's store does not answer within {} ms", where.timeout.count()));
  }
  return future.get();
}

std::string plain(const std::exception& failure) {
  std::string_view text = failure.what();
  // Gloo's messages begin with "[file:line] ".
  if (const size_t end = text.find("] "); text.starts_with('[') && end < text.find('\n')) text.remove_prefix(end + 2);
  const size_t begin = text.find_first_not_of(" \n");
  if (begin == std::string_view::npos) return fmt::format("an exception without a message: {}", typeid(failure).name());
  text.remove_prefix(begin);
  return std::string(text.substr(0, text.find('\n')));
}

}  // namespace rannc::runtime
