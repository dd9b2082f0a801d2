// Times messages between two processes over shared memory and over Gloo, beside each other.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdlib>

#include "runtime/train/process.h"
#include "runtime/transport/transports.h"
#include "tests/runtime/transport/filled_value.h"
#include "tools/common/launcher.h"
#include "tools/common/worker_environment.h"

namespace rannc {
namespace {

using Clock = std::chrono::steady_clock;

struct Size {
  uint64_t bytes;
  uint32_t trips;  ///< per round
};
const std::vector<Size> kSizes = {{1 << 10, 500}, {64 << 10, 200}, {1 << 20, 50}, {64 << 20, 3}};

/// Sends values to and fro.
class Player {
 public:
  Player(std::unique_ptr<runtime::Transport> end) : end_(std::move(end)), peer_(1 - end_->device().index()) {}

  void send(const runtime::Value& value) {
    end_->send({.step = sent_++}, peer_, value, runtime::SentValue::kFreedWhenTaken).value();
  }
  runtime::Value receive(int64_t elements) {
    const auto receipt = end_->receive({.step = received_++}, peer_, {ir::DType::kF32, {elements}}).value();
    return receipt->wait().value().value;
  }
  /// Mean time of a message one way, s.
  double round(const runtime::Value& value, uint32_t trips) {
    const auto start = Clock::now();
    for (uint32_t i = 0; i < trips; ++i) {
      if (end_->device() == DeviceId(0)) send(value);
      const runtime::Value arrived = receive(value->spec().shape[0]);
      if (end_->device() != DeviceId(0)) send(arrived);
    }
    end_->flush().value();
    return std::chrono::duration<double>(Clock::now() - start).count() / (2 * trips);
  }

 private:
  std::unique_ptr<runtime::Transport> end_;
  DeviceId peer_;
  uint64_t sent_ = 0, received_ = 0;
};

double median(std::vector<double> numbers) {
  std::sort(numbers.begin(), numbers.end());
  return numbers[numbers.size() / 2];
}

/// The second run meets at a port that the first one carries.
std::vector<Player> join_both(const tools::WorkerEnvironment& worker) {
  runtime::Rendezvous where{
      .host = worker.master_address, .port = worker.master_port, .rank = worker.rank, .workers = 2};
  where.listening_socket = worker.listening_socket;
  where.secret = tools::take_secret().value();
  std::vector<Player> players;
  players.emplace_back(runtime::find_transport("shm")->join(where, runtime::cpu()).value());
  if (worker.rank == 0) {
    auto meeting = tools::Listener::open().value();
    where.port = meeting.port();
    where.listening_socket = meeting.release();
    players[0].send(testing::filled_value(1, where.port));
  } else {
    where.port = static_cast<uint16_t>(players[0].receive(1)->item());
  }
  players.emplace_back(runtime::find_transport("gloo")->join(where, runtime::cpu()).value());
  return players;
}

void play(const tools::WorkerEnvironment& worker, uint32_t rounds) {
  runtime::keep_freed_memory();  // as rannc-run
  runtime::set_threads(1);
  std::vector<Player> players = join_both(worker);
  if (worker.rank == 0)
    fmt::print("{:>10} {:>14} {:>14} {:>10} {:>10} {:>8}\n", "bytes", "shm us", "gloo us", "shm GB/s", "gloo GB/s",
               "ratio");
  for (const Size& size : kSizes) {
    const runtime::Value value = testing::filled_value(static_cast<int64_t>(size.bytes / sizeof(float)), 1);
    std::vector<double> times[2];
    for (uint32_t round = 0; round <= rounds; ++round) {
      for (size_t i = 0; i < 2; ++i) {
        const double seconds = players[i].round(value, size.trips);
        if (round > 0) times[i].push_back(seconds);  // the first one warms up
      }
    }
    const double shm = median(times[0]), gloo = median(times[1]), giga = static_cast<double>(size.bytes) / 1e9;
    if (worker.rank == 0)
      fmt::print("{:>10} {:>14.1f} {:>14.1f} {:>10.2f} {:>10.2f} {:>8.2f}\n", size.bytes, shm * 1e6, gloo * 1e6,
                 giga / shm, giga / gloo, gloo / shm);
    std::fflush(stdout);
  }
}

}  // namespace
}  // namespace rannc

int main(int argc, char** argv) {
  CLI::App app("Times messages between two processes over shared memory and Gloo", "bench-transports");
  uint32_t rounds = 7;
  app.add_option("--rounds", rounds, "counted rounds per size, of which the median is printed")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  try {
    const auto worker = rannc::tools::read_worker_environment().value();
    if (!worker) {
      const std::vector<std::string> arguments(argv + 1, argv + argc);
      return rannc::tools::launch_workers(rannc::tools::own_program(), arguments, {.workers = 2}).value();
    }
    rannc::play(*worker, rounds);
  } catch (const rannc::Error& failure) {
    fmt::print(stderr, "{}\n", failure.what());
    return 1;
  }
  return 0;
}
