// The core of rung 3, also of the implicit convolutions: a block computes a BM x BN tile of a product, each of its 256
// threads a TM x TN piece of it in registers. Where the operands' elements come from is up to the loaders, so the same core
// multiplies matrices and convolves images whose patches are never written to memory. For .cu files.
//
// A loader has  static constexpr bool k_first  (neighbours along k are neighbours in memory: threads share out the loads that way),
//               Place place(int i)             (what is known of row, or column, i for all k)
//               T load(const Place&, int k)    (zero where i is outside).
// A store has   void operator()(int row, int column, T value)  and ignores what is outside.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace miniddp::cuda {

template <int BM_, int BN_, int TM_, int TN_>
struct TileShape {
  static constexpr int BM = BM_, BN = BN_, TM = TM_, TN = TN_, BK = 16, threads = 256;
  static_assert(BM / TM * (BN / TN) == threads, "one thread for each piece of the tile");
  static_assert(threads % BM == 0 && threads % BN == 0 && threads % BK == 0, "loads are shared out evenly");
};
using TilesOf16 = TileShape<16, 128, 2, 4>;  // for few rows: article A has 10 channels
using TilesOf32 = TileShape<32, 128, 4, 4>;
using TilesOf64 = TileShape<64, 64, 4, 4>;

/// One block's share of the loads of one operand's tile, `width` places by BK steps of k.
template <class T, int width, class Tiles, class Loader>
struct TileLoads {
  static constexpr int count = width * Tiles::BK / Tiles::threads;
  typename Loader::Place places[count];

  __device__ TileLoads(const Loader& loader, int first) {
#pragma unroll
    for (int i = 0; i < count; ++i) places[i] = loader.place(first + place_of(i));
  }
  __device__ static int place_of(int i) {
    const int load = static_cast<int>(threadIdx.x) + i * Tiles::threads;
    return Loader::k_first ? load / Tiles::BK : load % width;
  }
  __device__ static int k_of(int i) {
    const int load = static_cast<int>(threadIdx.x) + i * Tiles::threads;
    return Loader::k_first ? load % Tiles::BK : load / width;
  }
  /// tile[k][place] = elements k_begin … k_begin + BK, zero from k_end on.
  __device__ void run(const Loader& loader, int k_begin, int k_end, T (*tile)[width + 1]) const {
#pragma unroll
    for (int i = 0; i < count; ++i) {
      const int k = k_begin + k_of(i);
      tile[k_of(i)][place_of(i)] = k < k_end ? loader.load(places[i], k) : T{0};
    }
  }
};

/// The tiles of both operands. One column more than needed: with a power of two, stores along k would all meet in one bank.
template <class T, class Tiles>
struct SharedTiles {
  T a[Tiles::BK][Tiles::BM + 1];
  T b[Tiles::BK][Tiles::BN + 1];
};

/// A function of its own, so that all products with these tiles share one.
template <class T, class Tiles>
__device__ SharedTiles<T, Tiles>& shared_tiles() {
  __shared__ SharedTiles<T, Tiles> tiles;
  return tiles;
}

/// Sums over k in [k_begin, k_end) for the tile that starts at (row, column).
template <class T, class Tiles, class LoadA, class LoadB, class Store>
__device__ void multiply_tile(int row, int column, int k_begin, int k_end, const LoadA& a, const LoadB& b, const Store& store) {
  constexpr int BM = Tiles::BM, BN = Tiles::BN, TM = Tiles::TM, TN = Tiles::TN, BK = Tiles::BK;
  SharedTiles<T, Tiles>& tiles = shared_tiles<T, Tiles>();
  const TileLoads<T, BM, Tiles, LoadA> a_loads(a, row);
  const TileLoads<T, BN, Tiles, LoadB> b_loads(b, column);
  // A thread's rows and columns are not neighbours but BM/TM and BN/TN apart: then a warp reads neighbours.
  const int my_row = static_cast<int>(threadIdx.x) / (BN / TN), my_column = static_cast<int>(threadIdx.x) % (BN / TN);
  T sums[TM][TN] = {};
  for (int k = k_begin; k < k_end; k += BK) {
    a_loads.run(a, k, k_end, tiles.a);
    b_loads.run(b, k, k_end, tiles.b);
    __syncthreads();
#pragma unroll
    for (int step = 0; step < BK; ++step) {
      T a_part[TM], b_part[TN];
#pragma unroll
      for (int i = 0; i < TM; ++i) a_part[i] = tiles.a[step][my_row + i * (BM / TM)];
#pragma unroll
      for (int j = 0; j < TN; ++j) b_part[j] = tiles.b[step][my_column + j * (BN / TN)];
#pragma unroll
      for (int i = 0; i < TM; ++i) {
#pragma unroll
        for (int j = 0; j < TN; ++j) sums[i][j] += a_part[i] * b_part[j];
      }
    }
    __syncthreads();  // before the next tiles overwrite these
  }
#pragma unroll
  for (int i = 0; i < TM; ++i) {
#pragma unroll
    for (int j = 0; j < TN; ++j) store(row + my_row + i * (BM / TM), column + my_column + j * (BN / TN), sums[i][j]);
  }
}

}  // namespace miniddp::cuda
