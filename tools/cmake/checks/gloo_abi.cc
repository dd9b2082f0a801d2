// Checks that our declarations of Gloo match LibTorch's: two processes exchange and reduce tensors and let a receive
// time out.
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <stdexcept>
#include <string>
#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <vector>

namespace {

constexpr int kRanks = 2;
constexpr std::chrono::milliseconds kPatience{200};

void require(bool holds, const char* what) {
  if (!holds) throw std::runtime_error(what);
}

c10::intrusive_ptr<c10d::ProcessGroupGloo> join(const c10::intrusive_ptr<c10d::Store>& store, int rank) {
  auto options = c10d::ProcessGroupGloo::Options::create(std::chrono::seconds(20));
  options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1"));
  return c10::make_intrusive<c10d::ProcessGroupGloo>(store, rank, kRanks, options);
}

void exchange(c10d::ProcessGroupGloo& group, int rank) {
  std::vector<at::Tensor> tensors = {rank == 0 ? at::arange(1000, at::kFloat) : at::zeros({1000}, at::kFloat)};
  (rank == 0 ? group.send(tensors, 1, 7) : group.recv(tensors, 0, 7))->wait();
  require(tensors[0].equal(at::arange(1000, at::kFloat)), "a received tensor differs from the one sent");
}

void reduce(c10d::ProcessGroupGloo& group, int rank) {
  std::vector<at::Tensor> tensors = {at::full({64}, rank + 1.0, at::kDouble)};
  group.allreduce(tensors)->wait();
  require(tensors[0].equal(at::full({64}, 3.0, at::kDouble)), "an all-reduce of 1 and 2 is not 3");
}

// Rank 1 stays until rank 0 is done, since a closed connection would look like a time-out.
void time_out(c10d::ProcessGroupGloo& group, c10d::Store& store, int rank) {
  if (rank != 0) {
    store.wait({"expired"});
    return;
  }
  std::vector<at::Tensor> tensors = {at::zeros({1})};
  auto work = group.recv(tensors, 1, 8);
  bool expired = false;
  const auto start = std::chrono::steady_clock::now();
  try {
    work->wait(kPatience);
  } catch (const std::exception&) {
    expired = std::chrono::steady_clock::now() - start >= kPatience;
  }
  store.set("expired", "yes");
  require(expired, "a receive without a sender does not time out");
}

int run_rank(const std::string& path, int rank) {
  try {
    auto store = c10::make_intrusive<c10d::FileStore>(path, kRanks);
    auto group = join(store, rank);
    exchange(*group, rank);
    reduce(*group, rank);
    time_out(*group, *store, rank);
    return 0;
  } catch (const std::exception& failure) {
    std::fprintf(stderr, "rank %d: %s\n", rank, failure.what());
    return 1;
  }
}

}  // namespace

int main() {
  std::string path = "/tmp/rannc-gloo-check-XXXXXX";
  const int file = mkstemp(path.data());
  if (file < 0) return 1;
  close(file);
  // An alarm ends a rank that hangs, so the configure step cannot hang.
  const pid_t child = fork();
  alarm(30);
  const int own = run_rank(path, child == 0 ? 1 : 0);
  if (child == 0) _exit(own);
  int status = 1;
  waitpid(child, &status, 0);
  unlink(path.c_str());
  return own == 0 && status == 0 ? 0 : 1;
}
