// Catch2, version 2 or 3.
#pragma once

#ifdef MINIDDP_CATCH2_V2
#include <catch2/catch.hpp>
#else
#include <catch2/catch_all.hpp>
using Catch::Approx;
#endif
