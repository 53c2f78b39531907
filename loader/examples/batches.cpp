/* The loader in C++: batches PATH [EPOCHS].
 *
 * Two small owners, so that a loader is closed and a batch given back on whatever way a scope is
 * left, and a loop over batches that ends by itself and throws on an error. Shows how many samples
 * each label has, and each epoch's rate. */
#include <shuffleload.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <stdexcept>

struct LoaderClose {
    void operator()(sl_loader *loader) const
    {
        sl_close(loader);
    }
};

struct BatchRelease {
    sl_loader *loader;
    void operator()(sl_batch *batch) const
    {
        sl_release(loader, batch);
    }
};

using Batch = std::unique_ptr<sl_batch, BatchRelease>;

class Loader
{
  public:
    explicit Loader(const sl_config &config)
    {
        sl_loader *opened = nullptr;

        if (sl_open(&opened, &config) < 0)
            throw std::runtime_error(sl_error(nullptr));
        loader.reset(opened);
    }

    void set_epoch(uint64_t epoch)
    {
        if (sl_set_epoch(loader.get(), epoch) < 0)
            throw std::runtime_error(sl_error(loader.get()));
    }

    /* Empty at the epoch's end. */
    Batch next()
    {
        sl_batch *batch = nullptr;

        if (sl_next(loader.get(), &batch, -1) < 0)
            throw std::runtime_error(sl_error(loader.get()));
        return Batch(batch, BatchRelease{loader.get()});
    }

    struct sl_stats stats()
    {
        struct sl_stats stats = {};

        stats.size = sizeof stats;
        if (sl_stats(loader.get(), &stats) < 0)
            throw std::runtime_error(sl_error(loader.get()));
        return stats;
    }

  private:
    std::unique_ptr<sl_loader, LoaderClose> loader;
};

int main(int count, char **arguments)
try {
    struct sl_config config = {};
    std::map<int64_t, uint64_t> samples;
    const uint64_t epochs = count > 2 ? std::strtoull(arguments[2], nullptr, 10) : 1;

    sl_config_init(&config, sizeof config);
    config.path = count > 1 ? arguments[1] : nullptr;
    config.batch_size = 64;
    config.output = SL_UINT8_NHWC;
    Loader loader(config);
    for (uint64_t epoch = 0; epoch < epochs; epoch++) {
        loader.set_epoch(epoch);
        while (const Batch batch = loader.next())
            for (uint64_t i = 0; i < batch->count; i++)
                samples[batch->labels[i]]++;
        const struct sl_stats stats = loader.stats();
        std::printf("epoch %llu: %.0f samples/s so far\n", static_cast<unsigned long long>(epoch),
                    static_cast<double>(stats.samples) /
                        (static_cast<double>(stats.wall_ns) / 1e9));
        if (stats.bad)
            std::fprintf(stderr, "%llu bad samples; the last: %s\n",
                         static_cast<unsigned long long>(stats.bad), stats.last_bad);
    }
    for (const auto &label : samples) {
        const std::string name = label.first == SL_NO_LABEL
                                     ? "no label"
                                     : "label " + std::to_string(label.first);
        std::printf("%s: %llu\n", name.c_str(), static_cast<unsigned long long>(label.second));
    }
    return 0;
} catch (const std::exception &error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
}
