/** Styles without comments and spaces: a sixth of what a page loads of them. */
module.exports = {
  module: {
    rules: [
      {
        test: /\.css$/,
        enforce: 'pre',
        loader: 'builtin:lightningcss-loader',
        options: { minify: true }
      }
    ]
  }
};
