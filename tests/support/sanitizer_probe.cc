// Does what the named sanitizer is to find, and nothing else: for sanitizers_test.py, not run by CTest.
#include <climits>
#include <cstdio>
#include <cstring>
#include <memory>
#include <thread>

namespace {

int race() {
  int shared = 0;
  std::thread other([&] { ++shared; });
  ++shared;
  other.join();
  return shared;
}

int read_past_the_end(int size) {
  const auto numbers = std::make_unique<int[]>(static_cast<size_t>(size));
  return numbers[static_cast<size_t>(size)];
}

int overflow(int summand) { return INT_MAX + summand; }

}  // namespace

int main(int argc, char** argv) {
  const char* what = argc > 1 ? argv[1] : "";
  if (std::strcmp(what, "race") == 0) return std::printf("%d\n", race()) < 0;
  if (std::strcmp(what, "address") == 0) return std::printf("%d\n", read_past_the_end(argc)) < 0;
  if (std::strcmp(what, "overflow") == 0) return std::printf("%d\n", overflow(argc)) < 0;
  return 2;
}
