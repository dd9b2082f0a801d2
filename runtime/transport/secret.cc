// Wraps libsodium, which needs no initialization for these functions.
#include "runtime/transport/secret.h"

#include <fmt/format.h>
#include <sodium.h>
#include <sys/random.h>

#include <vector>

namespace rannc::runtime {

namespace {

const unsigned char* bytes_of(std::string_view text) { return reinterpret_cast<const unsigned char*>(text.data()); }

}  // namespace

Result<std::string> random_hex(size_t bytes) {
  std::vector<unsigned char> random(bytes);
  if (getrandom(random.data(), bytes, 0) != static_cast<ssize_t>(bytes))
    return error("the system has no random numbers");
  return fmt::format("{:02x}", fmt::join(random, ""));
}

bool equal_secrets(std::string_view first, std::string_view second) {
  return first.size() == second.size() && sodium_memcmp(first.data(), second.data(), first.size()) == 0;
}

std::string proof_of(std::string_view secret, std::string_view text) {
  std::string proof(crypto_auth_hmacsha256_BYTES, '\0');
  crypto_auth_hmacsha256_state state;
  crypto_auth_hmacsha256_init(&state, bytes_of(secret), secret.size());
  crypto_auth_hmacsha256_update(&state, bytes_of(text), text.size());
  crypto_auth_hmacsha256_final(&state, reinterpret_cast<unsigned char*>(proof.data()));
  return proof;
}

}  // namespace rannc::runtime
