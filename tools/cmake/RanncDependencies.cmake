# Finds every third-party library once, under one imported target each.
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(CLI11 REQUIRED)
if(RANNC_TESTS)
  find_package(GTest REQUIRED)
endif()
